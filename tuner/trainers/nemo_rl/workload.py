"""Reads settings of NeMo-RL into a workload."""

from tuner.hardware import Cluster
from tuner.model_shape import ModelShape
from tuner.trainers.nemo_rl.batches import read_batch, read_given_batch, read_log_prob, read_update
from tuner.trainers.nemo_rl.cluster import shares
from tuner.trainers.nemo_rl.engines import read_engine, read_head
from tuner.trainers.nemo_rl.generation import read_rollout, read_sync
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.workload import (
    Actor,
    Backend,
    Engine,
    Lengths,
    Reference,
    Release,
    Saving,
    Workload,
)


def read(
    source: SettingsByMeaning,
    *,
    model: ModelShape,
    cluster: Cluster,
    rollout_engine_version: str | None,
    lengths: Lengths,
    zero_advantage_ratio: float | None,
) -> Workload:
    """The job that learns by rewards (``grpo``), as a release makes it of its settings.

    Raises:
        InputError: a value has the wrong type or makes no workload.
        UnsupportedError: the settings ask for what is not modelled.
    """
    if learns_from_given(source):
        return _fine_tuned(source, model, cluster, lengths)
    parts = shares(source)
    engine = read_engine(source, model, cluster.gpus, colocated=parts.colocated)
    head = read_head(source, engine)
    actor = Actor(
        engine=engine,
        head=head,
        update=read_update(source),
        log_prob=None if takes_rollouts_log_probs(source) else read_log_prob(source),
        saving=_saving(source, engine),
    )
    rollout = read_rollout(source, model, cluster.gpu, parts, rollout_engine_version)
    return Workload(
        release=Release(trainer="NeMo-RL", version=source.version),
        model=model,
        cluster=cluster,
        batch=read_batch(source, lengths, zero_advantage_ratio),
        actor=actor,
        reference=_reference(source, actor),
        critic=None,
        rollout=rollout,
        sync=read_sync(source, model, engine, rollout, cluster.gpu),
    )


def learns_from_given(source: SettingsByMeaning) -> bool:
    """Whether the job is one of supervised fine-tuning."""
    return isinstance(source.settings.get("sft"), dict) and not isinstance(source.settings.get("grpo"), dict)


def _fine_tuned(source: SettingsByMeaning, model: ModelShape, cluster: Cluster, lengths: Lengths) -> Workload:
    """A job that learns from given sequences: nothing generates, and nothing leaves the card."""
    engine = read_engine(source, model, cluster.gpus, colocated=False)
    actor = Actor(
        engine=engine,
        head=read_head(source, engine),
        update=read_update(source),
        log_prob=None,
        saving=_saving(source, engine),
    )
    return Workload(
        release=Release(trainer="NeMo-RL", version=source.version),
        model=model,
        cluster=cluster,
        batch=read_given_batch(source, lengths),
        actor=actor,
        reference=None,
        critic=None,
        rollout=None,
        sync=None,
    )


def takes_rollouts_log_probs(source: SettingsByMeaning) -> bool:
    """Whether the pass over log-probabilities of before the update is left out: the ratio is 1 by decree.

    Source: NeMo-RL v0.6.0 and v0.7.0 ``algorithms/grpo.py`` (``force_on_policy_ratio``).
    """
    return source.flag("on_policy") and source.value("log_prob_threshold") is None


def _reference(source: SettingsByMeaning, actor: Actor) -> Reference | None:
    """The frozen policy, whose weights a host copy puts in the place of the actor's.

    It is asked for with a KL penalty of 0, too, unless that is switched off.

    Source: NeMo-RL v0.7.0 ``algorithms/grpo.py`` (``skip_reference_policy_logprobs_calculation``),
    ``models/policy/workers/base_policy_worker.py`` (``use_reference_model``).
    """
    if source.flag("skips_reference"):
        return None
    weighs = source.number("kl", default=0.01) != 0
    engine = actor.engine
    adapters = engine.lora is not None
    own = engine if adapters else _frozen(engine)
    return Reference(
        engine=own, head=actor.head, log_prob=read_log_prob(source), separate=not adapters, weighs=weighs
    )


def _frozen(engine: Engine) -> Engine:
    """The engine of a reference: weights alone, which leave the card as soon as they have been asked."""
    from msgspec.structs import replace

    return replace(engine, param_offload=True, optimizer_offload=False, takes_steps=False)


def _saving(source: SettingsByMeaning, engine: Engine) -> Saving | None:
    """Checkpoints hold weights and optimizer as ranks have them.

    Source: NeMo-RL v0.7.0 ``utils/checkpoint.py``, ``models/policy/workers`` (``save_checkpoint``).
    """
    if not source.flag("saving") or not engine.modelled:
        return None
    return Saving(
        optimizer=source.flag("saving.optimizer", default=True),
        gathers_tensors=False,
        in_background=engine.backend is Backend.MEGATRON,
        every_steps=source.integer("saving.every", default=10),
        drops_older=source.value("saving.kept") is not None,
    )
