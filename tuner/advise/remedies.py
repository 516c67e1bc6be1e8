"""What makes room where a job ran out of memory: settings, and the bytes there before and after each."""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from tuner import rules
from tuner.advise.answer import Advice
from tuner.findings import Finding, Numerics, Rule, Written
from tuner.memory.rollout.capacity import built_sequence_bytes, start_problems
from tuner.rules.case import Case, figures
from tuner.rules.cures import (
    fewer_graphs,
    optimizer_offloaded,
    parameters_offloaded,
    small_bucket,
    synced_by_tensor,
)
from tuner.rules.passes import site_of
from tuner.rules.rollout_engine import HUNDREDTHS, with_fraction
from tuner.units import GIB
from tuner.workload import Phase, Workload

Write = Callable[[Workload], Written]
"""A proposal as overrides; ValueError where the release has no keys for it."""

_Proposed = tuple[Rule, Workload, Numerics]
_AWAKE = (Phase.ROLLOUT, Phase.WAKE_UP)
_WITH_ENGINE = (*_AWAKE, Phase.UPDATE_WEIGHTS)


class Measure(Enum):
    """What a remedy changes, in bytes."""

    PEAK = "peak"  # of a phase, on one GPU
    CACHE = "cache"  # the rollout engine's KV cache, on one GPU
    ROOM = "room"  # what the rollout engine's KV cache holds beyond its longest sequence, on one GPU
    HOST = "host"  # memory of one node


# Rules whose proposals are fewer tokens at a time.
_OF_TOKENS = (
    "token-budget-too-large",
    "micro-batch-too-large",
    "critic-budget-too-large",
    "forward-budget-too-large",
    "sequence-packing",
)
_LEAST = GIB // 10  # what gives less is not worth a line
_OF_CACHE = (Measure.CACHE, Measure.ROOM)


class Remedy(Struct, frozen=True, kw_only=True):
    """One change of settings, with what it does where memory ran out."""

    rule: Rule  # whose page says when it is worth it
    overrides: tuple[str, ...]
    measure: Measure
    phase: Phase | None  # of a peak
    before_bytes: int
    after_bytes: int
    enough: bool  # by the model
    seconds_before: float
    seconds_after: float
    numerics: Numerics
    yours: bool  # changes the training: for the user to decide


class _Offer(Struct, frozen=True, kw_only=True):
    """A change that may help."""

    rule: Rule
    workload: Workload
    overrides: tuple[str, ...]
    numerics: Numerics
    yours: bool = False


class Need(Struct, frozen=True, kw_only=True):
    """Where memory ran out, and how much may be taken there."""

    measure: Measure
    limit_bytes: int  # at most, of a peak and the host; at least, of cache and room
    phase: Phase | None = None
    tokens_decide: bool = True  # False: what ran out goes by the model and its shards alone
    trained: bool = True  # False: before the first step, when the optimizer has no moments yet
    known: bool = True  # how much was missing; False: a tenth of what there is, to have something to compare


def remedies(advice: Advice, need: Need, write: Write) -> tuple[Remedy, ...]:
    """What helps there: what is enough first, and of that what costs the step least.

    Beside the advice on the job stand the settings that decide there. Where none of that is enough, as where
    the model finds that the job fits, the rules are asked for a card that is smaller by what was missing.
    """
    case = Case.of(advice.workload, headroom=advice.headroom)
    helpful = list(_helpful(case, need, _listed(advice)))
    helpful += _helpful(case, need, _written(advice, _levers(case, need), write))
    if not any(remedy.enough for remedy in helpful):
        helpful += _helpful(case, need, _written(advice, _further(advice, need), write))
    by_rule: dict[str, Remedy] = {}
    for remedy in helpful:
        known = by_rule.get(remedy.rule.name)
        if known is None or (remedy.enough and not known.enough):
            by_rule[remedy.rule.name] = remedy
    unlike = {remedy.overrides: remedy for remedy in reversed(by_rule.values())}
    return tuple(sorted(unlike.values(), key=_rank))


def _rank(remedy: Remedy) -> tuple[float, ...]:
    return (remedy.yours, not remedy.enough, round(remedy.seconds_after, 2), len(remedy.overrides))


def opens(workload: Workload) -> bool:
    """Whether the engine is expected to start: nothing refuses it, and its share leaves a cache."""
    return not start_problems(workload) and figures(workload).rollout.kv_bytes > 0


def room_bytes(workload: Workload) -> int:
    """What the KV cache holds beyond the engine's longest sequence; below 0 where it does not hold that."""
    return figures(workload).rollout.kv_bytes - built_sequence_bytes(workload)


def _measured(workload: Workload, need: Need) -> int:
    made = figures(workload)
    if need.measure is Measure.CACHE:
        return made.rollout.kv_bytes
    if need.measure is Measure.ROOM:
        return room_bytes(workload)
    if need.measure is Measure.HOST:
        return made.estimate.host_bytes
    phase = None if need.phase is None else made.memory.phase(need.phase)
    return 0 if phase is None else phase.peak_bytes


def _helpful(case: Case, need: Need, offers: Iterable[_Offer]) -> Iterator[Remedy]:
    before, opened = _measured(case.workload, need), opens(case.workload)
    pointless = () if need.tokens_decide else _OF_TOKENS
    for offer in offers:
        if offer.rule.name in pointless:
            continue
        after = _measured(offer.workload, need)
        if need.measure in _OF_CACHE:
            starts_only_then = not opened and opens(offer.workload)
            helps, enough = after > before or starts_only_then, after >= need.limit_bytes
            enough = enough and opens(offer.workload)
        else:
            helps, enough = before - after >= _LEAST, after <= need.limit_bytes
        if helps:
            yield Remedy(
                rule=offer.rule,
                overrides=offer.overrides,
                measure=need.measure,
                phase=need.phase,
                before_bytes=before,
                after_bytes=after,
                enough=enough and need.known,
                seconds_before=case.time.seconds,
                seconds_after=case.seconds(offer.workload),
                numerics=offer.numerics,
                yours=offer.yours,
            )


def _listed(advice: Advice) -> Iterator[_Offer]:
    for item in advice.recommendations:
        if item.workload is not None and item.overrides:
            yield _Offer(
                rule=item.finding.rule,
                workload=item.workload,
                overrides=item.overrides,
                numerics=item.numerics,
                yours=item.yours,
            )


def _levers(case: Case, need: Need) -> Iterator[_Proposed]:
    """The settings that decide there, by as much as is needed."""
    if need.measure in _OF_CACHE:
        yield from _more_room(case, need)
    elif need.measure is Measure.PEAK:
        if need.tokens_decide:
            yield from _fewer_tokens(case, need)
        yield from _smaller_share(case, need)
        if need.phase in _WITH_ENGINE:
            yield from _less_beside_engine(case.workload, need)


def _further(advice: Advice, need: Need) -> Iterator[_Proposed]:
    """Proposals that the job as the model sees it gives no cause for."""
    workload = advice.workload
    cluster = workload.cluster
    if need.measure is Measure.HOST:
        cluster = replace(cluster, host_memory_bytes=need.limit_bytes)
        yield from _proposed(advice, replace(workload, cluster=cluster))
    if need.measure is not Measure.PEAK or need.phase is None:
        return
    if need.phase not in _AWAKE:
        size = max(1, int(need.limit_bytes / (1 - advice.headroom)))
        cluster = replace(cluster, gpu=cluster.gpu.limited_to(size))
        yield from _proposed(advice, replace(workload, cluster=cluster))


def _written(advice: Advice, proposals: Iterable[_Proposed], write: Write) -> Iterator[_Offer]:
    """The proposals that the trainer has keys for, on the job's own cluster."""
    for rule, proposal, numerics in proposals:
        try:
            written = write(replace(proposal, cluster=advice.workload.cluster))
        except ValueError:
            continue
        if written.overrides:
            yield _Offer(
                rule=rule,
                workload=written.workload,
                overrides=written.overrides,
                numerics=numerics,
                yours=rule.yours,
            )


def _proposed(advice: Advice, short: Workload) -> Iterator[_Proposed]:
    findings: list[Finding] = rules.run(Case.of(short, headroom=advice.headroom))
    for finding in findings:
        if finding.proposal is not None:
            yield finding.rule, finding.proposal, finding.numerics


def _fewer_tokens(case: Case, need: Need) -> Iterator[_Proposed]:
    """Smaller micro-batches of the pass: the largest that suffice, else the smallest."""
    site = None if need.phase is None else site_of(case.workload, need.phase)
    if site is None:
        return
    sizes = [size for size in site.sizes(case.workload) if size < site.size(case.workload)]
    if not sizes:
        return
    size = case.largest(
        sizes,
        lambda size: site.resized(case.workload, size),
        accept=lambda other: _measured(other, need) <= need.limit_bytes,
    )
    own = "token-budget-too-large" if site.dynamic else "micro-batch-too-large"
    name = {Phase.UPDATE_ACTOR: own, Phase.UPDATE_CRITIC: "critic-budget-too-large"}
    rule = name.get(site.phase, "forward-budget-too-large")
    yield _of(rule, site.resized(case.workload, size or sizes[0]))


def _smaller_share(case: Case, need: Need) -> Iterator[_Proposed]:
    """A smaller share of the card for the engine, where it is awake."""
    workload = case.workload
    if need.phase not in _WITH_ENGINE:
        return
    fraction = case.largest(
        [value for value in HUNDREDTHS if value / 100 < workload.rollout.memory_fraction],
        lambda value: with_fraction(workload, value),
        accept=lambda other: _measured(other, need) <= need.limit_bytes,
    )
    if fraction is not None and opens(with_fraction(workload, fraction)):
        yield _of("rollout-fraction-too-large", with_fraction(workload, fraction))


def _less_beside_engine(workload: Workload, need: Need) -> Iterator[_Proposed]:
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


def _more_room(case: Case, need: Need) -> Iterator[_Proposed]:
    """A larger share for the engine, its weights over more GPUs, or shorter sequences to be ready for."""
    workload = case.workload
    rollout, longest = workload.rollout, workload.batch.sequence_tokens
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
    return _measured(workload, need) >= need.limit_bytes and opens(workload)


def _of(name: str, workload: Workload) -> _Proposed:
    rule: Rule = next(module.RULE for module in rules.modules() if module.RULE.name == name)
    return rule, workload, rule.numerics
