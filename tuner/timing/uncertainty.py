"""Intervals of modelled seconds, and what is known of the difference between two jobs.

Every cause of seconds has a spread (``tuner.timing.spreads``). Causes of one family err together, so what
they add to an interval is added up; families err independently, so their sums are added as squares. Where two
jobs are compared the constants are the same on both sides: what does not change between them cancels.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import hypot, sqrt
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from tuner.evidence import Evidence
from tuner.field_marks import HighSeconds, LowSeconds, RatesOf, Seconds
from tuner.hardware import Cluster, Gpu
from tuner.timing import spreads
from tuner.timing.corrections import OperatorFamily as Corrected
from tuner.timing.estimate import PhaseTime, StepTime
from tuner.timing.operators import table_card
from tuner.timing.spreads import SecondsCause, SecondsSpread, SpreadFamily
from tuner.workload import Phase


class Interval(Struct, frozen=True, kw_only=True):
    """Modelled seconds with the least and the most that they may be, and what they rest on."""

    seconds: Seconds
    low_s: LowSeconds
    high_s: HighSeconds
    evidence: Annotated[Evidence, Meta(description="what most of the seconds rest on")]
    rates_of: RatesOf


class StepChange(Struct, frozen=True, kw_only=True):
    """How much longer a step takes than before, below zero where it is shorter."""

    seconds: float
    share: float  # of the seconds before
    low_share: float
    high_share: float

    @property
    def is_gain(self) -> bool:
        """Whether it is shorter by more than the uncertainty of the difference."""
        return self.high_share < 0

    @property
    def is_loss(self) -> bool:
        """Whether it is longer by more than that."""
        return self.low_share > 0


def step_interval(time: StepTime, cluster: Cluster) -> Interval:
    """The interval of a whole step.

    Causes of one family are at the low or the high end of their spreads together, so they add up; families
    are not, so the interval reaches by the root of the squares of what they add. Where two sides run at once,
    either may turn out to be the longer one.
    """
    longest, *shorter = (interval(side, cluster) for side in sorted(time.sides, key=_seconds, reverse=True))
    for side in shorter:
        low, high = max(longest.low_s, side.low_s), max(longest.high_s, side.high_s)
        longest = replace(longest, low_s=low, high_s=high)
    return longest


def _seconds(phases: Iterable[PhaseTime]) -> float:
    return sum(time.seconds for time in phases)


def phase_interval(time: PhaseTime, cluster: Cluster) -> Interval:
    """The interval of one phase."""
    return interval((time,), cluster)


def change(
    before: StepTime,
    after: StepTime,
    cluster: Cluster,
    *,
    then: Cluster | None = None,
    of_runs: bool = False,
) -> StepChange:
    """The difference between two steps, with what is uncertain of that difference alone.

    The constants are the same before and after. With the causes of one family at an end of their spreads the
    step takes B_f before and A_f after, where it takes B and A at their typical values: the share
    ``A_f / B_f - 1`` lies apart from ``A / B - 1`` by what the family leaves uncertain of it. Families
    together: the root of the squares. On another card, other constants hold: what it leaves uncertain is
    independent of the first one's. Both steps are priced anew beside a fast host and a slow one: a GPU that
    has less to do waits longer for its host.

    Args:
        before: one step.
        after: the other.
        cluster: the GPUs of both, or of the first.
        then: those of the second, where they are others.
        of_runs: whether both were run, each with responses of its own: what nobody says of these is as
            uncertain of one as of the other, where one job before and after a change has the same.
    """
    sources: list[tuple[Ends, Ends]] = []
    other_card = then is not None and then.gpu != cluster.gpu
    of_both = zip(_step_ends(before, cluster), _step_ends(after, then or cluster), strict=True)
    for place, (less, more) in enumerate(of_both):
        independent = other_card or (of_runs and place in _OF_RESPONSES)
        sources += [(less, _NOTHING), (_NOTHING, more)] if independent else [(less, more)]
    seconds, then_s = before.seconds, after.seconds
    share = then_s / seconds - 1
    lower = upper = 0.0
    for less, more in sources:
        ends = [(then_s + more[end]) / (seconds + less[end]) - 1 - share for end in (0, 1)]
        lower += min(0.0, *ends) ** 2
        upper += max(0.0, *ends) ** 2
    return StepChange(
        seconds=then_s - seconds, share=share, low_share=share - sqrt(lower), high_share=share + sqrt(upper)
    )


_WAITING, _PREPARING = "launch", "engine"  # of passes, and of the steps of a rollout engine

Ends = tuple[float, float]
"""Seconds by which the causes of a family are less, and more, than typical."""

_NOTHING: Ends = (0.0, 0.0)


def family_ends(phases: Iterable[PhaseTime], cluster: Cluster) -> list[Ends]:
    """Seconds that all causes of each family add at the low and the high end of their spreads at once.

    What runs differ by is a family of its own, to which all seconds belong; between two jobs it cancels.
    """
    low, high, whole = [0.0] * len(SpreadFamily), [0.0] * len(SpreadFamily), 0.0
    spreads_of = _spreads_on(cluster)
    for time in phases:
        causes = spreads_of[time.phase]
        whole += time.seconds
        for name, seconds in time.parts:
            place, less, more = causes.get(name) or _spread_of(time.phase, name, cluster)
            low[place] += less * seconds
            high[place] += more * seconds
        for one in time.ranges:
            low[_PLACES[one.family]] += one.low_s
            high[_PLACES[one.family]] += one.high_s
    low[_RUNS] = (spreads.RUNS.low - 1) * whole
    high[_RUNS] = (spreads.RUNS.high - 1) * whole
    return list(zip(low, high, strict=True))


_PLACES = {family: place for place, family in enumerate(SpreadFamily)}
_OF_RESPONSES = {_PLACES[family] for family in (SpreadFamily.LONGEST, SpreadFamily.GROUPS)}
_RUNS, _HOST = _PLACES[SpreadFamily.RUNS], _PLACES[SpreadFamily.HOST]


@lru_cache(maxsize=64)
def _spreads_on(cluster: Cluster) -> dict[Phase, dict[str, tuple[int, float, float]]]:
    """By phase and cause: the family's place, and the parts of a second that the ends lie apart."""
    return {phase: {name: _spread_of(phase, name, cluster) for name in spreads.CAUSES} for phase in Phase}


def _spread_of(phase: Phase, name: str, cluster: Cluster) -> tuple[int, float, float]:
    cause = spreads.cause_of(phase, name)
    spread = spread_on(cause, cluster)
    return _PLACES[cause.family], spread.low - 1, spread.high - 1


def spread_on(cause: SecondsCause, cluster: Cluster) -> SecondsSpread:
    """A cause's spread on these GPUs.

    What was measured on this very card is as sure as a table is read; what was measured on another card of
    its kind may differ by some percent; of a kind without tables as much as published runs on it do. Between
    machines the network may be slower than the one that is assumed, where nobody says how fast it is; storage
    may be faster and slower, unless somebody does.
    """
    spread, gpu = cause.spread, cluster.gpu
    if cause.corrected_by is not None and _has(gpu, cause.corrected_by.value):
        if cause.corrected_by is not Corrected.ENGINE:
            return spreads.of_error(spreads.TABLE_ERROR)
        apart = _has(gpu, Corrected.ENGINE_SEQUENCE.value)
        return spreads.of_error(spreads.ENGINE_ERROR if apart else spreads.ENGINE_ERROR_OF_ONE_FACTOR)
    if cause.family in (SpreadFamily.PRODUCTS, SpreadFamily.MEMORY):
        if not is_measured(cause, gpu):
            spread = spread.and_also(spreads.of_error(spreads.CARD_ERROR))
            if table_card(gpu.name) != gpu.name:
                spread = spread.and_also(_of_another_kind(cause, gpu))
    elif cause.family is SpreadFamily.STORAGE and cluster.storage_bytes_per_s is not None:
        return spreads.of_error(spreads.TABLE_ERROR)
    elif (
        cause.family is SpreadFamily.LINKS
        and cluster.nodes > 1
        and cluster.network_assumed
        and not cause.in_node
    ):
        spread = spread.and_also(spreads.NETWORK)
    return spread


def is_measured(cause: SecondsCause, gpu: Gpu) -> bool:
    """Whether the card's profile has the rate that decides a cause as it was measured on that card."""
    corrected = cause.corrected_by is not None and _has(gpu, cause.corrected_by.value)
    return corrected or _has(gpu, cause.family.value)


def _has(gpu: Gpu, figure: str) -> bool:
    return gpu.measured is not None and getattr(gpu.measured, figure, None) is not None


def _of_another_kind(cause: SecondsCause, gpu: Gpu) -> SecondsSpread:
    if cause.family is SpreadFamily.PRODUCTS:
        return spreads.other_products(gpu)
    return cause.elsewhere or spreads.OTHER_MEMORY


def interval(phases: Sequence[PhaseTime], cluster: Cluster, *, in_run: bool = True) -> Interval:
    """The interval of some phases together, which run one after the other.

    Args:
        phases: with their causes.
        cluster: the GPUs.
        in_run: of a training run; False: of passes by themselves, without what runs differ by.
    """
    ends = _priced_ends(phases, cluster)
    if not in_run:
        ends[_RUNS] = _NOTHING
    seconds = sum(time.seconds for time in phases)
    evidence, card = _basis(phases, cluster)
    return Interval(
        seconds=seconds,
        low_s=seconds - hypot(*(low for low, _ in ends)),
        high_s=seconds + hypot(*(high for _, high in ends)),
        evidence=evidence,
        rates_of=card,
    )


def _step_ends(step: StepTime, cluster: Cluster) -> list[Ends]:
    """The ends of every family in a step, remembered with it: one job is compared with many proposals."""
    cached_ends: tuple[Cluster, list[Ends]] | None = vars(step).get("ends")
    if cached_ends is None or cached_ends[0] != cluster:
        cached_ends = vars(step)["ends"] = cluster, _priced_ends(step.deciding_phases, cluster)
    return cached_ends[1]


def _priced_ends(phases: Sequence[PhaseTime], cluster: Cluster) -> list[Ends]:
    """The ends of every family, with those of the host as they come out beside another one."""
    ends = family_ends(phases, cluster)
    ends[_HOST] = _host_ends(phases, cluster, ends[_HOST])
    return ends


def _host_ends(phases: Sequence[PhaseTime], cluster: Cluster, ends: Ends) -> Ends:
    """The ends of the host's family, with phases priced anew beside a fast host and a slow one.

    What the GPU waits grows by more than the host's time does, and begins where it did not wait at all.
    """
    low, high = ends
    spreads_of = _spreads_on(cluster)
    for time in phases:
        if time.job is None and time.engine is None:
            continue
        parts, causes = dict(time.parts), spreads_of[time.phase]
        waits = [_WAITING] if time.engine is None else [_WAITING, _PREPARING]
        faster, slower = ([1 + causes[name][end] for name in waits] for end in (1, 2))
        low += time.beside_host(*faster) - time.seconds
        high += time.beside_host(*slower) - time.seconds
        for name in waits:  # counted already, as if the GPU hid nothing
            _place, less, more = causes[name]
            low -= less * parts.get(name, 0.0)
            high -= more * parts.get(name, 0.0)
    return low, high


def _basis(phases: Sequence[PhaseTime], cluster: Cluster) -> tuple[Evidence, str]:
    """What seconds rest on, by the causes that take most of them, and the card that was measured for it."""
    weights = defaultdict[tuple[Evidence, str], float](float)
    bases = _bases_on(cluster)
    for time in phases:
        of_phase = bases[time.phase]
        for name, seconds in time.parts:
            weights[of_phase.get(name) or _basis_of(time.phase, name, cluster)] += seconds
    return max(weights, key=lambda basis: weights[basis], default=(Evidence.EXACT, cluster.gpu.name))


@lru_cache(maxsize=64)
def _bases_on(cluster: Cluster) -> dict[Phase, dict[str, tuple[Evidence, str]]]:
    """By phase and cause what its seconds rest on."""
    return {phase: {name: _basis_of(phase, name, cluster) for name in spreads.CAUSES} for phase in Phase}


def _basis_of(phase: Phase, name: str, cluster: Cluster) -> tuple[Evidence, str]:
    cause, gpu = spreads.cause_of(phase, name), cluster.gpu
    on_this_card = is_measured(cause, gpu)
    evidence = Evidence.MEASURED if on_this_card else cause.evidence
    if cause.family is SpreadFamily.STORAGE and cluster.storage_bytes_per_s is not None:
        evidence = Evidence.MODELLED
    return evidence, gpu.name if on_this_card else table_card(gpu.name)
