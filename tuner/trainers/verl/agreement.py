"""When what a release reads counts as the workload that was asked for.

A proposal decides settings. What follows from them (which fused heads are right, the dtype of
moments) is for the release to say, and what a proposal
leaves as it was it has not asked for.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tuner.trainers.verl.read import batches_by_reference_keys
from tuner.trainers.verl.source import Source
from tuner.workload import Critic, Engine, OutputHead, Reference, Workload

_ENGINE = ("separate_embedding_units", "prefetch_effective", "optimizer_dtype")
_HEAD = ("scaling", "logits_dtype", "fused_cross_entropy", "fusable")
_ENTROPY = ("compiled", "chunk_tokens", "checkpointed")  # without packing verl calls the plain function

_T = TypeVar("_T", bound=Struct)


def following(before: Workload, after: Workload) -> frozenset[str]:
    """Fields of the actor's head that may follow packing: it changes and the proposal leaves them alone."""
    if before.actor.engine.packed == after.actor.engine.packed:
        return frozenset()
    return frozenset(name for name in _ENTROPY if _same(before.actor.head, after.actor.head, name))


def settled(before: Workload, after: Workload, read: Workload, source: Source) -> Workload:
    """``after`` with the release's own facts, taken from what was ``read``."""
    actor = replace(
        after.actor,
        engine=_engine(after.actor.engine, read.actor.engine),
        head=_with(after.actor.head, read.actor.head, (*_HEAD, *following(before, after))),
    )
    return replace(
        after,
        actor=actor,
        reference=_reference(after.reference, read, source),
        critic=_critic(after.critic, read.critic),
        rollout=_with(after.rollout, read.rollout, ("sleep_level", "sleeps_with_weights")),
        sync=_with(after.sync, read.sync, ("smallest_bucket_bytes", "empties_cache_first", "stages_weights")),
    )


def _engine(after: Engine, read: Engine) -> Engine:
    return _with(after, read, _ENGINE)


def _reference(after: Reference | None, workload: Workload, source: Source) -> Reference | None:
    """A reference of its own computes no entropy; one that is the actor has nothing of its own."""
    read = workload.reference
    if after is None or read is None:
        return after
    if after.separate:
        head = _with(after.head, read.head, (*_HEAD, *_ENTROPY))
        engine = _with(after.engine, read.engine, (*_ENGINE, "forward_prefetch"))  # the actor's up to 0.5
        return replace(after, engine=engine, head=head)
    own = batches_by_reference_keys(source)
    log_prob = after.log_prob if own else read.log_prob
    return replace(after, engine=read.engine, head=read.head, log_prob=log_prob)


def _critic(after: Critic | None, read: Critic | None) -> Critic | None:
    if after is None or read is None:
        return after
    return replace(after, engine=_engine(after.engine, read.engine))


def _with(target: _T, source: _T, names: Iterable[str]) -> _T:
    values: dict[str, Any] = {name: getattr(source, name) for name in names}
    return replace(target, **values)


def _same(one: OutputHead, other: OutputHead, name: str) -> bool:
    return bool(getattr(one, name) == getattr(other, name))
