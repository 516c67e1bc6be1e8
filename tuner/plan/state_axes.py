"""Axes of the trainer's engines: where states wait, what is computed again, how the head is computed."""

from collections.abc import Callable, Iterator
from math import ceil

from msgspec.structs import replace

from tuner.plan.axes import Axis, axis
from tuner.rules.packing import needs_flash, packed
from tuner.rules.rungs import with_head
from tuner.rules.second_fsdp import sharded_by_second
from tuner.workload import (
    ENTROPY_CHUNK_TOKENS,
    Backend,
    Checkpointing,
    Engine,
    HeadKind,
    Phase,
    Workload,
)

_SHARES_ON_HOST = (0.5, 1.0)  # of a Megatron optimizer
_SHARES_RECOMPUTED = (0.25, 0.5, 0.75)  # of the layers of a stage


def state_axes(workload: Workload) -> Iterator[Axis]:
    """The axes of the actor's engine and head, then of the others' engines."""
    yield axis("strategy", workload, _strategies(workload), layout=True)
    if not needs_flash(workload, in_rows := packed(workload)):  # a plan is pasted where nothing is installed
        yield axis("packing", workload, [("packed", in_rows)])
    yield axis("states", workload, _states(workload, workload.actor.engine, _actor))
    yield axis("recomputation", workload, _recomputation(workload, workload.actor.engine, _actor))
    yield axis("gathering", workload, _gathering(workload))
    yield axis("head", workload, _heads(workload))
    reference = workload.reference
    if reference is not None and reference.separate:
        yield axis("reference-states", workload, _reference_states(workload, reference.engine))
    critic = workload.critic
    if critic is not None:
        yield axis("critic-states", workload, _states(workload, critic.engine, _critic))
        yield axis("critic-recomputation", workload, _recomputation(workload, critic.engine, _critic))


_With = Callable[[Workload, Engine], Workload]


def _actor(workload: Workload, engine: Engine) -> Workload:
    return workload.with_actor(engine=engine)


def _critic(workload: Workload, engine: Engine) -> Workload:
    return workload.with_critic(engine=engine)


def _strategies(workload: Workload) -> Iterator[tuple[str, Workload]]:
    """FSDP2 in place of FSDP1; a job under FSDP2 stays there."""
    second = sharded_by_second(workload, Phase.UPDATE_ACTOR)
    yield "fsdp2", second if workload.critic is None else sharded_by_second(second, Phase.UPDATE_CRITIC)


def _states(workload: Workload, engine: Engine, put: _With) -> Iterator[tuple[str, Workload]]:
    """Weights and optimizer on the card or on the host between passes, or there for good."""
    for weights in (False, True):
        for optimizer in (False, True):
            changed = replace(
                engine,
                param_offload=weights,
                optimizer_offload=optimizer,
                streamed_offload=False,
                optimizer_offload_fraction=0.0,
            )
            yield _offloaded(weights, optimizer), put(workload, changed)
            if engine.backend is Backend.MEGATRON:
                for share in _SHARES_ON_HOST:
                    partly = replace(changed, optimizer_offload_fraction=share)
                    yield f"{_offloaded(weights, optimizer)}, {share:.0%} stepped", put(workload, partly)
    yield from _streamed(workload, put)


def _streamed(workload: Workload, put: _With) -> Iterator[tuple[str, Workload]]:
    """Weights fetched layer by layer and the optimizer on the host, which FSDP2 alone can do."""
    sharded = sharded_by_second(workload, Phase.UPDATE_ACTOR if put is _actor else Phase.UPDATE_CRITIC)
    critic = sharded.critic
    engine = sharded.actor.engine if put is _actor or critic is None else critic.engine
    if engine.backend is Backend.FSDP2:
        streamed = replace(engine, streamed_offload=True, param_offload=False, optimizer_offload=False)
        yield "streamed", put(sharded, streamed)


def _offloaded(weights: bool, optimizer: bool) -> str:
    named = [name for name, moved in (("weights", weights), ("optimizer", optimizer)) if moved]
    return " and ".join(named) + " on the host" if named else "on the card"


def _reference_states(workload: Workload, engine: Engine) -> Iterator[tuple[str, Workload]]:
    """The reference's weights on the card or on the host, in the way that its engine offloads."""
    for moved in (False, True):
        if engine.backend is Backend.MEGATRON:
            changed = replace(engine, param_offload=moved)
        else:
            changed = replace(engine, streamed_offload=moved, param_offload=False)
        yield "on the host" if moved else "on the card", workload.with_reference(engine=changed)


def _recomputation(workload: Workload, engine: Engine, put: _With) -> Iterator[tuple[str, Workload]]:
    """What is recomputed: nothing, attention, all layers, or under Megatron the first of each stage."""
    megatron = engine.backend is Backend.MEGATRON
    kinds = tuple(Checkpointing) if megatron else (Checkpointing.NONE, Checkpointing.FULL)
    for kind in kinds:
        for offload in (False,) if megatron else (False, True):
            text = f"{kind.value}, offloaded" if offload else kind.value
            yield text, put(workload, _recomputing(engine, kind, activation_offload=offload))
    if megatron:
        parallel = engine.parallel
        of_piece = ceil(int(workload.model.layers) / (parallel.pipeline * parallel.virtual_pipeline))
        for first in dict.fromkeys(ceil(share * of_piece) for share in _SHARES_RECOMPUTED):
            if 0 < first < of_piece:
                changed = _recomputing(engine, Checkpointing.FULL, recompute_first_layers=first)
                yield f"{first} layers of a stage", put(workload, changed)


def _recomputing(engine: Engine, kind: Checkpointing, **changes: object) -> Engine:
    """An engine that recomputes something else, each layer for itself."""
    every = {"recompute_first_layers": None, "recompute_layers": 1}
    return replace(engine, checkpointing=kind, **{**every, **changes})


def _gathering(workload: Workload) -> Iterator[tuple[str, Workload]]:
    """Whether weights stay gathered until the backward pass, and are gathered one layer ahead."""
    engine = workload.actor.engine
    if engine.backend is Backend.MEGATRON:
        return
    for reshard in (True, False):
        for prefetch in (False, True):
            text = f"{'resharded' if reshard else 'kept'}{', prefetched' if prefetch else ''}"
            yield text, workload.with_actor_engine(reshard_after_forward=reshard, forward_prefetch=prefetch)


def _heads(workload: Workload) -> Iterator[tuple[str, Workload]]:
    """The ways to compute log-probabilities that are right for the model and round nothing."""
    head, ascend = workload.actor.head, workload.cluster.gpu.is_ascend
    for kind in head.fusable:
        if kind not in head.rounding and not (ascend and kind is HeadKind.FUSED_TRITON):
            yield kind.value, with_head(workload, kind=kind)
    yield "logits", with_head(workload, kind=HeadKind.LOGITS)
    yield (
        "chunked",
        with_head(workload, kind=HeadKind.LOGITS, compiled=False, chunk_tokens=ENTROPY_CHUNK_TOKENS),
    )
    yield "compiled", with_head(workload, kind=HeadKind.LOGITS, compiled=True, chunk_tokens=None)
    if workload.actor.update.entropy:
        yield "checkpointed", with_head(workload, kind=HeadKind.LOGITS, checkpointed=True)
