"""A setting that this release never reads

What it checks
--------------
Keys that stand in the configuration of a release and that nothing in that release reads, once they differ from the default.
Where another key does what the setting says, the check names it and gives it as the override; it is silent when that key already has the value.

Why it matters
--------------
A dead key gives no error and no warning.
The run goes on with the release's own behaviour, and a change that was meant to save memory or to bound a gradient has no effect.
A norm of gradients that was to be half or twice as large, or further from the one that is taken, makes another training of it, which the message says.
Most of them died when the workers were replaced by the model engine in 0.8.0: the schema kept them, the readers were deleted.

When it does not apply
----------------------
A key with its default value is silent, so that a composed configuration, which spells out every key, is not reported.
So is a limit on running sequences where the engine's own lets as many of a replica's run.
In a copy of verl whose asynchronous programs still run the older workers, what those read is not reported, nor a length of the rollout engine that the servers of a copy take.
Nor is a key that a statement of the copy reads, in a part of its code where no release names it.
A key of fine-tuning is reported in reinforcement learning alone.
Keys of the critic's batches, of the reference's entropy and of the reference's offload have checks of their own.

Sources
-------
* ``actor.grad_clip``, ``critic.grad_clip``: read in verl 0.7.1 ``workers/actor/dp_actor.py:392``, ``workers/critic/dp_critic.py``; from 0.8.0 on ``workers/engine/fsdp/transformer_impl.py`` clips by ``optim.clip_grad`` (0.9.1: line 795).
* ``actor.use_torch_compile``, ``actor.entropy_*``: verl 0.7.1 ``workers/actor/dp_actor.py:81-92``; from 0.8.0 on ``workers/engine/fsdp/transformer_impl.py`` reads the engine's own (0.9.1: lines 178-187), which the YAML links to the actor's ``entropy_*`` from 0.9.0 on.
* ``model.tiled_mlp``, ``actor.use_prefix_grouper``: passed on in verl 0.7.1 ``workers/fsdp_workers.py:883-906``, not in 0.9.1 ``workers/engine/fsdp/transformer_impl.py:324-330``.
* ``actor.freeze_vision_tower``: last read in verl 0.7.1 ``workers/fsdp_workers.py:537``.
* ``rollout.over_sample_rate``: last read in verl 0.6.1 ``workers/rollout/sglang_rollout/sglang_rollout.py:1137``; ``rollout.multi_stage_wake_up``: in 0.5.0 ``workers/fsdp_workers.py:553``.
* ``rollout.max_num_seqs``: first passed to an engine in verl 0.6.0 ``workers/rollout/vllm_rollout/vllm_rollout_spmd.py:203``.
* ``rollout.max_model_len``: overwritten in verl 0.7.0 ``workers/rollout/vllm_rollout/vllm_async_server.py:198``, ``workers/rollout/sglang_rollout/async_sglang_server.py:86``.
* ``fsdp_config.reshard_after_forward`` under FSDP1: verl 0.6.1 ``workers/fsdp_workers.py:109-118`` always shards fully; 0.7.0 lines 109-126 read it.
* ``trainer.balance_batch``: read in verl 0.9.1 ``trainer/ppo/ray_trainer.py:1549``; ``trainer/ppo/v1/trainer_base.py:582`` (0.9.0: line 556) balances without asking.
* ``model.fsdp_config.model_dtype``: read in verl 0.4.1 ``trainer/fsdp_sft_trainer.py:174``; ``workers/fsdp_workers.py:214`` takes that of the actor's or the reference's ``fsdp_config`` (0.7.1: line 387).
* ``nccl_timeout``: last read in verl 0.7.1 ``workers/fsdp_workers.py:162``.
"""

import re
from collections.abc import Iterator
from math import ceil

from msgspec import Struct

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.inputs.tree import contains, split_key
from tuner.language import N_, _
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, CRITIC, MODEL, REFERENCE, ROLLOUT, changed
from tuner.trainers.verl.releases import ENGINE_PREVIEW
from tuner.trainers.verl.source import source_of
from tuner.workload import Backend, Workload

RULE = Rule(
    code="CFG101",
    name="dead-key",
    summary=N_("a setting that this release never reads"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    unread=True,
)

_SECTIONS_OF_FSDP = re.compile(r"\.fsdp(_config)?\.")
_SEQUENCES, _LENGTH = f"{ROLLOUT}.max_num_seqs", f"{ROLLOUT}.max_model_len"
_CLIPS = ("grad_clip", "clip_grad")  # ends of keys that bound the norm of a gradient
_FAR = 2  # times as much, or a part of it, is another training
_SWITCH = "trainer.use_legacy_worker_impl"
_ENGINE = Releases(since=ENGINE_PREVIEW)
_ENGINE_FOLDER = "workers/engine"
_WORKERS = Releases(since="0.6.0", until=ENGINE_PREVIEW)  # their schema already has the engine's keys
_FSDP = (Backend.FSDP, Backend.FSDP2)
_ANY = (*_FSDP, Backend.MEGATRON)


class Dead(Struct, frozen=True, kw_only=True):
    """One key, the releases and backends where nothing reads it, and the key that does its work."""

    key: str
    releases: Releases
    live: str | None = None
    backends: tuple[Backend, ...] = _ANY
    critic: bool = False  # only where there is one
    v1: bool = False  # only under the V1 trainer
    workers: bool = (
        False  # read by the older workers, which a copy of the trainer may run for its own programs
    )
    meaning: str = ""  # under which a copy of the trainer may read it
    read_by: tuple[str, str] | None = (
        None  # words, and file, of a statement that only a copy that reads it has
    )
    added: bool = False  # of another program, in whose section a launch adds it: no program has it there


def _prefixed(
    key: str,
    live: str,
    releases: Releases,
    *,
    critic: bool = False,
    read_by: tuple[str, str] | None = None,
) -> Dead:
    return Dead(key=key, live=live, releases=releases, backends=_FSDP, critic=critic, read_by=read_by)


DEAD: tuple[Dead, ...] = (
    # the workers' keys, which the model engine does not read
    _prefixed(
        f"{ACTOR}.grad_clip", f"{ACTOR}.optim.clip_grad", _ENGINE, read_by=("grad_clip", _ENGINE_FOLDER)
    ),
    _prefixed(f"{CRITIC}.grad_clip", f"{CRITIC}.optim.clip_grad", _ENGINE, critic=True),
    _prefixed(f"{ACTOR}.use_torch_compile", f"{ACTOR}.fsdp_config.use_torch_compile", _ENGINE),
    _prefixed(
        f"{ACTOR}.entropy_from_logits_with_chunking",
        f"{ACTOR}.fsdp_config.entropy_from_logits_with_chunking",
        Releases(since=ENGINE_PREVIEW, until="0.9.0"),
    ),
    _prefixed(
        f"{ACTOR}.entropy_checkpointing",
        f"{ACTOR}.fsdp_config.entropy_checkpointing",
        Releases(since=ENGINE_PREVIEW, until="0.9.0"),
    ),
    _prefixed(f"{ACTOR}.fsdp_config.dtype", f"{ACTOR}.fsdp_config.mixed_precision.param_dtype", _ENGINE),
    _prefixed(
        f"{CRITIC}.ulysses_sequence_parallel_size",
        f"{CRITIC}.fsdp.ulysses_sequence_parallel_size",
        Releases(since="0.8.0"),
        critic=True,
    ),
    Dead(key=f"{MODEL}.tiled_mlp.enabled", releases=_ENGINE, read_by=("tiled_mlp", _ENGINE_FOLDER)),
    Dead(key=f"{ACTOR}.use_prefix_grouper", releases=_ENGINE, read_by=("use_prefix_grouper", _ENGINE_FOLDER)),
    Dead(
        key=f"{ACTOR}.freeze_vision_tower", releases=_ENGINE, read_by=("freeze_vision_tower", _ENGINE_FOLDER)
    ),
    Dead(key="actor_rollout_ref.nccl_timeout", releases=_ENGINE, workers=True),
    Dead(key=f"{CRITIC}.nccl_timeout", releases=_ENGINE, critic=True, workers=True),
    # the engine's keys, which the workers do not read
    _prefixed(
        f"{ACTOR}.optim.clip_grad", f"{ACTOR}.grad_clip", _WORKERS, read_by=("clip_grad", "actor/dp_actor")
    ),
    _prefixed(
        f"{CRITIC}.optim.clip_grad",
        f"{CRITIC}.grad_clip",
        _WORKERS,
        critic=True,
        read_by=("clip_grad", "critic/dp_critic"),
    ),
    _prefixed(f"{ACTOR}.fsdp_config.use_torch_compile", f"{ACTOR}.use_torch_compile", _WORKERS),
    _prefixed(
        f"{ACTOR}.fsdp_config.entropy_from_logits_with_chunking",
        f"{ACTOR}.entropy_from_logits_with_chunking",
        _WORKERS,
    ),
    _prefixed(f"{ACTOR}.fsdp_config.entropy_checkpointing", f"{ACTOR}.entropy_checkpointing", _WORKERS),
    _prefixed(
        f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size",
        f"{ACTOR}.ulysses_sequence_parallel_size",
        _WORKERS,
    ),
    _prefixed(
        f"{CRITIC}.model.fsdp_config.ulysses_sequence_parallel_size",
        f"{CRITIC}.ulysses_sequence_parallel_size",
        _WORKERS,
        critic=True,
    ),
    Dead(
        key=f"{ACTOR}.fsdp_config.reshard_after_forward",
        releases=Releases(until="0.7.0"),
        backends=(Backend.FSDP,),
    ),
    Dead(
        key=f"{REFERENCE}.fsdp_config.reshard_after_forward",
        releases=Releases(until="0.7.0"),
        backends=(Backend.FSDP,),
    ),
    # fine-tuning's key, which reinforcement learning has in sections of its roles
    Dead(key="model.fsdp_config.model_dtype", releases=Releases(), backends=_FSDP, added=True),
    # the V1 trainer balances always
    Dead(key="trainer.balance_batch", releases=Releases(since="0.9.0"), v1=True),
    # the rollout
    Dead(
        key=f"{ROLLOUT}.over_sample_rate",
        releases=Releases(since="0.7.0"),
        read_by=("over_sample_rate", "workers/rollout"),
    ),
    Dead(
        key=f"{ROLLOUT}.multi_stage_wake_up",
        releases=Releases(since="0.6.0"),
        read_by=("multi_stage_wake_up", "fsdp_workers"),
    ),
    Dead(
        key=_SEQUENCES,
        releases=Releases(until="0.6.0"),
        meaning="rollout.max_sequences",
        read_by=("config max_num_seqs", "workers/rollout"),
    ),
    Dead(
        key=_LENGTH,
        releases=Releases(since="0.7.0", until="0.7.1"),
        meaning="rollout.max_model_tokens",
    ),
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per dead key that the user changed."""
    source = source_of(settings, version)
    for dead in DEAD:
        alive = (dead.v1 and not source.v1_trainer) or (dead.workers and _runs_workers(dead, settings))
        alive = alive or source.copy.key(dead.meaning) == dead.key or _is_read_by_copy(dead, settings)
        alive = alive or (dead.added and (source.program.fine_tunes or settings.knows(dead.key)))
        if (
            version in dead.releases
            and not alive
            and _concerns(dead, workload)
            and changed(settings, dead.key)
            and not _is_so_anyway(dead, settings, workload)
        ):
            yield from _finding(dead, settings, workload)


def _concerns(dead: Dead, workload: Workload) -> bool:
    if not dead.critic:
        return workload.actor.engine.backend in dead.backends
    return workload.critic is not None and workload.critic.engine.backend in dead.backends


def _is_so_anyway(dead: Dead, settings: Settings, workload: Workload) -> bool:
    """Whether the engine runs as many sequences of itself as a limit that it is not given would let it."""
    rollout, limit = workload.rollout, settings.get(dead.key)
    if dead.key != _SEQUENCES or rollout is None or not isinstance(limit, int):
        return False
    of_replica = ceil(workload.batch.sequences / rollout.replicas)
    return min(limit, of_replica) == min(rollout.max_sequences, of_replica)


def _severity(dead: Dead, settings: Settings, workload: Workload) -> Severity:
    """How bad it is: a bound that no sequence reaches changes nothing where the engine starts without it."""
    value = settings.get(dead.key)
    reached = not isinstance(value, int) or value < workload.batch.sequence_tokens
    return Severity.WARNING if dead.key != _LENGTH or reached else Severity.ADVICE


def _is_read_by_copy(dead: Dead, settings: Settings) -> bool:
    """Whether a copy of the trainer has a statement that reads the key, as no release does where it is dead."""
    return (
        dead.read_by is not None
        and settings.has_statement is not None
        and settings.has_statement(*dead.read_by)
    )


def _runs_workers(dead: Dead, settings: Settings) -> bool:
    """Whether a copy of the trainer has older workers that read the key, and nothing keeps it from them."""
    has = settings.has_statement
    if has is None or settings.is_set(_SWITCH) or has("support legacy worker implementation", "experimental"):
        return False
    return has(f"config {dead.key.rpartition('.')[2]}", "_workers")


def _finding(dead: Dead, settings: Settings, workload: Workload) -> Iterator[Finding]:
    value, live = settings.get(dead.key), _live(dead, settings)
    if live is None:
        text = (
            _("{key}={value} does nothing: it is a key of fine-tuning, which {release} reads there alone")
            if dead.added
            else _("{key}={value} does nothing: no code of {release} reads it")
        )
        message = text.format(key=dead.key, value=value, release=workload.release)
        yield report(RULE, settings, message, keys=[dead.key], severity=_severity(dead, settings, workload))
    elif settings.get(live) != value:
        text = (
            _(
                "{key}={value} does nothing: {release} reads {live} instead and clips gradients at {taken}, "
                "so that it trains otherwise than asked"
            )
            if _clips_otherwise(dead, value, settings.get(live))
            else _("{key}={value} does nothing: {release} reads {live} instead")
        )
        message = text.format(
            key=dead.key, value=value, release=workload.release, live=live, taken=settings.get(live)
        )
        yield report(
            RULE,
            settings,
            message,
            keys=[dead.key, live],
            overrides=[assign(settings, live, value)],
        )


def _clips_otherwise(dead: Dead, asked: object, taken: object) -> bool:
    """Whether gradients are clipped at twice what is asked for, or at half of it, or even further from it."""
    if not dead.key.endswith(_CLIPS):
        return False
    asked_norm, taken_norm = (norm if isinstance(norm, int | float) else 0.0 for norm in (asked, taken))
    least, most = sorted((asked_norm, taken_norm))
    return most > 0 and least * _FAR <= most


def _live(dead: Dead, settings: Settings) -> str | None:
    """The key that does the work, which VeOmni has in a section of its own."""
    veomni = None if dead.live is None else _SECTIONS_OF_FSDP.sub(".veomni.", dead.live)
    if veomni is None or not contains(settings.defaults, split_key(veomni)):
        return dead.live
    return veomni
