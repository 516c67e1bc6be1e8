"""The settings that decide what a job takes at a place of its step, and how far each has to be changed."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from tuner import rules
from tuner.enumeration import Enum
from tuner.findings import Numerics, Rule
from tuner.memory.rollout.capacity import built_sequence_bytes, start_problems
from tuner.rules.case import Case, figures
from tuner.rules.passes import site_of
from tuner.rules.rollout_engine import AWAKE, HUNDREDTHS, with_fraction
from tuner.rules.rungs import (
    fewer_graphs,
    optimizer_offloaded,
    parameters_offloaded,
    small_bucket,
    synced_by_tensor,
)
from tuner.workload import Phase, Workload

Proposed = tuple[Rule, Workload, Numerics]
"""A change under the name of the rule whose page tells of it."""

_WITH_ENGINE = (*AWAKE, Phase.UPDATE_WEIGHTS)


class Measure(Enum):
    """What a remedy changes, in bytes."""

    PEAK = "peak"  # of a phase, on one GPU
    CACHE = "cache"  # the rollout engine's KV cache, on one GPU
    ROOM = "room"  # what the rollout engine's KV cache holds beyond its longest sequence, on one GPU
    HOST = "host"  # memory of one node


OF_CACHE = (Measure.CACHE, Measure.ROOM)


class Need(Struct, frozen=True, kw_only=True):
    """Where memory ran out, and how much may be taken there."""

    measure: Measure
    limit_bytes: Annotated[int, Meta(description="at most, of a peak and the host; at least, of room")]
    phase: Phase | None = None
    tokens_decide: bool = True  # False: what ran out goes by the model and its shards alone
    trained: bool = True  # False: before the first step, when the optimizer has no moments yet
    # how much was missing
    known: Annotated[
        bool, Meta(description="false: a tenth of what there is, to have something to compare")
    ] = True


def opens(workload: Workload) -> bool:
    """Whether the engine is expected to start: nothing refuses it, and its share leaves a cache."""
    if workload.rollout is None:
        return True
    return not start_problems(workload) and figures(workload).rollout.kv_bytes > 0


def room_bytes(workload: Workload) -> int:
    """What the KV cache holds beyond the engine's longest sequence; below 0 where it does not hold that."""
    return figures(workload).rollout.kv_bytes - built_sequence_bytes(workload)


def bytes_of_need(workload: Workload, need: Need) -> int:
    """The bytes of a job that a need is about."""
    made = figures(workload)
    if need.measure is Measure.CACHE:
        return made.rollout.kv_bytes
    if need.measure is Measure.ROOM:
        return room_bytes(workload)
    if need.measure is Measure.HOST:
        return made.estimate.host_bytes
    phase = None if need.phase is None else made.memory.phase(need.phase)
    return 0 if phase is None else phase.peak_bytes


def levers(case: Case, need: Need) -> Iterator[Proposed]:
    """The settings that decide there, by as much as is needed."""
    if need.measure in OF_CACHE:
        yield from _more_room(case, need)
    elif need.measure is Measure.PEAK:
        if need.tokens_decide:
            yield from _fewer_tokens(case, need)
        yield from _smaller_share(case, need)
        if need.phase in _WITH_ENGINE:
            yield from _less_beside_engine(case.workload, need)


def _fewer_tokens(case: Case, need: Need) -> Iterator[Proposed]:
    """Smaller micro-batches of the pass: the largest that suffice, else the smallest."""
    site = None if need.phase is None else site_of(case.workload, need.phase)
    if site is None:
        return
    sizes = site.smaller_sizes(case.workload)
    if not sizes:
        return
    size = case.largest(
        sizes,
        lambda size: site.resized(case.workload, size),
        accept=lambda other: bytes_of_need(other, need) <= need.limit_bytes,
    )
    own = "token-budget-too-large" if site.dynamic else "micro-batch-too-large"
    name = {Phase.UPDATE_ACTOR: own, Phase.TRAIN: own, Phase.UPDATE_CRITIC: "critic-budget-too-large"}
    rule = name.get(site.phase, "forward-budget-too-large")
    yield _of(rule, site.resized(case.workload, size or sizes[0]))


def _smaller_share(case: Case, need: Need) -> Iterator[Proposed]:
    """A smaller share of the card for the engine, where it is awake."""
    workload = case.workload
    if need.phase not in _WITH_ENGINE:
        return
    fraction = case.largest(
        [value for value in HUNDREDTHS if value / 100 < workload.generator.memory_fraction],
        lambda value: with_fraction(workload, value),
        accept=lambda other: bytes_of_need(other, need) <= need.limit_bytes,
    )
    if fraction is not None and opens(with_fraction(workload, fraction)):
        yield _of("rollout-fraction-too-large", with_fraction(workload, fraction))


def _less_beside_engine(workload: Workload, need: Need) -> Iterator[Proposed]:
    """Less of the trainer on the card while the engine takes its memory, or less of the engine's own."""
    phase = Phase.ROLLOUT if need.phase is None else need.phase
    stays = workload
    if need.trained:
        stays = optimizer_offloaded(workload, phase)
        yield _of("optimizer-offload", stays)
    yield _of("parameter-offload", parameters_offloaded(stays, phase))
    yield _of("sync-bucket", small_bucket(workload, phase))
    yield _of("layered-summon", synced_by_tensor(workload, phase))
    yield _of("capture-sizes", fewer_graphs(workload, phase))


def _more_room(case: Case, need: Need) -> Iterator[Proposed]:
    """A larger share for the engine, its weights over more GPUs, or shorter sequences to be ready for."""
    workload = case.workload
    rollout, longest = workload.generator, workload.batch.sequence_tokens
    larger = (value for value in HUNDREDTHS if value / 100 > rollout.memory_fraction)
    enough = (other for value in larger if _suffices(other := with_fraction(workload, value), need))
    fraction = next(enough, None)
    if fraction is not None:
        yield _of("kv-cache-too-small", fraction)
    if rollout.max_model_tokens is None or rollout.max_model_tokens > longest:
        yield _of("rollout-model-length", workload.with_rollout(max_model_tokens=longest))
    wider = 2 * rollout.tensor_parallel
    if workload.cluster.gpus_per_node % wider == 0:
        yield _of("rollout-tensor-parallel-too-small", workload.with_rollout(tensor_parallel=wider))


def _suffices(workload: Workload, need: Need) -> bool:
    return bytes_of_need(workload, need) >= need.limit_bytes and opens(workload)


def _of(name: str, workload: Workload) -> Proposed:
    rule: Rule = next(module.RULE for module in rules.modules() if module.RULE.name == name)
    return rule, workload, rule.numerics
