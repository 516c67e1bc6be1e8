"""Reads settings of NeMo-RL into a workload."""

from msgspec.structs import replace

from tuner.hardware import Cluster
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.trainers.nemo_rl.algorithms import (
    distils,
    expect_one_teacher,
    has_critic,
    learns_from_given,
    learns_from_pairs,
    of_model_beside,
)
from tuner.trainers.nemo_rl.batches import read_batch, read_given_batch, read_log_prob, read_update
from tuner.trainers.nemo_rl.cluster import shares
from tuner.trainers.nemo_rl.engines import read_engine, read_head
from tuner.trainers.nemo_rl.generation import read_rollout, read_sync
from tuner.trainers.nemo_rl.images import read_images
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.workload import (
    Actor,
    Backend,
    Batch,
    Critic,
    Engine,
    HeadKind,
    Lengths,
    OutputHead,
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
    critic_model: ModelShape | None = None,
    teacher_model: ModelShape | None = None,
) -> Workload:
    """The job, as a release makes it of its settings.

    Raises:
        InputError: a value has the wrong type or makes no workload.
        UnsupportedError: the settings ask for what is not modelled.
    """
    if learns_from_given(source):
        return _fine_tuned(source, model, cluster, lengths)
    parts = shares(source)
    engine = read_engine(source, model, cluster.gpus, colocated=parts.colocated)
    if parts.colocated and not has_critic(source):
        engine = replace(engine, stays_between=engine.param_offload)
    if distils(source) and not parts.colocated:
        engine = replace(engine, optimizer_offload=True)  # leaves for the teacher's pass
    head = read_head(source, engine, largest=distils(source))
    actor = Actor(
        engine=engine,
        head=head,
        update=read_update(source),
        log_prob=None if distils(source) or takes_rollouts_log_probs(source) else read_log_prob(source),
        saving=_saving(source, engine),
    )
    batch = _with_images(source, model, read_batch(source, lengths, zero_advantage_ratio))
    rollout = read_rollout(source, model, cluster.gpu, parts, rollout_engine_version)
    return Workload(
        release=Release(trainer="NeMo-RL", version=source.version),
        model=model,
        cluster=cluster,
        batch=batch,
        actor=actor,
        reference=_teacher(source, teacher_model, cluster.gpus)
        if distils(source)
        else _reference(source, actor),
        critic=_critic(source, critic_model or model, cluster.gpus) if has_critic(source) else None,
        rollout=rollout,
        sync=read_sync(source, model, engine, rollout, cluster.gpu),
    )


def _fine_tuned(source: SettingsByMeaning, model: ModelShape, cluster: Cluster, lengths: Lengths) -> Workload:
    """A job that learns from given sequences: nothing generates, and nothing leaves the card.

    Of pairs one sequence is preferred: by a reward model, which has one column, or by a policy against its
    reference.

    Source: NeMo-RL v0.5.0 to v0.7.0 ``algorithms/dpo.py`` (``add_ref_logprobs_to_data``, ``dpo_train``),
    ``rm.py`` (``rm_train``).
    """
    judges = isinstance(source.settings.get("rm"), dict)
    model = replace(model, value_head=True) if judges else model
    engine = read_engine(source, model, cluster.gpus, colocated=False)
    pairs = learns_from_pairs(source)
    actor = Actor(
        engine=engine,
        head=OutputHead(kind=HeadKind.VALUE) if judges else read_head(source, engine),
        update=read_update(source, sequences_of_row=2 if pairs else 1),
        log_prob=None,
        saving=_saving(source, engine),
    )
    return Workload(
        release=Release(trainer="NeMo-RL", version=source.version),
        model=model,
        cluster=cluster,
        batch=_with_images(
            source, model, read_given_batch(source, lengths, sequences_of_row=2 if pairs else 1)
        ),
        actor=actor,
        reference=_preferring_reference(actor) if pairs and not judges else None,
        critic=None,
        rollout=None,
        sync=None,
    )


def _with_images(source: SettingsByMeaning, model: ModelShape, batch: Batch) -> Batch:
    return replace(batch, images=read_images(source, model.tower, batch))


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
        engine=own,
        head=actor.head,
        log_prob=read_log_prob(source),
        separate=not adapters,
        weighs=weighs,
        takes_place=True,
    )


def _preferring_reference(actor: Actor) -> Reference:
    """The policy as it was, which judges the same micro-batches before an update does."""
    engine = actor.engine
    adapters = engine.lora is not None
    return Reference(
        engine=engine if adapters else _frozen(engine),
        head=actor.head,
        log_prob=replace(actor.update, mini_batch_sequences=None),
        separate=not adapters,
        takes_place=True,
    )


def _teacher(source: SettingsByMeaning, model: ModelShape | None, gpus: int) -> Reference:
    """The teacher: a policy of its own on the same GPUs, of whose logits the largest of each token are kept.

    Its weights come before its pass and leave behind it.

    Source: NeMo-RL v0.7.0 ``algorithms/distillation.py`` (``teacher_policy``),
    ``models/automodel/train.py`` (``TopkLogitsPostProcessor``).

    Raises:
        InputError: nobody knows the teacher's model.
    """
    expect_one_teacher(source)
    own = of_model_beside(source, "teacher")
    if model is None:
        raise own.error("model", _("no model is known by this name"))
    engine = _frozen(read_engine(own, model, gpus, colocated=True))
    return Reference(
        engine=engine, head=read_head(own, engine, largest=True), log_prob=read_log_prob(own), model=model
    )


def _critic(source: SettingsByMeaning, model: ModelShape, gpus: int) -> Critic:
    """The value model, which is on the card while neither the policy nor vLLM is.

    Source: NeMo-RL v0.7.0 ``algorithms/ppo.py`` (``finish_inference``, ``finish_training``).
    """
    own = of_model_beside(source, "value")
    shape = replace(model, value_head=True)
    engine = read_engine(own, shape, gpus, colocated=True)
    update = replace(read_update(own), epochs=source.integer("batch.updates", default=1))
    return Critic(
        model=shape,
        engine=engine,
        update=update,
        values=read_log_prob(own),
        saving=_saving(source, engine),
    )


def _frozen(engine: Engine) -> Engine:
    """The engine of a reference: weights alone, which leave the card as soon as they have been asked."""
    return replace(
        engine, param_offload=True, optimizer_offload=False, takes_steps=False, stays_between=False
    )


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
