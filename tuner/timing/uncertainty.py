"""Intervals of modelled seconds, and what is known of the difference between two jobs.

Every cause of seconds has a spread (``tuner.timing.spreads``), and rests on unknowns that are independent of
one another (``tuner.timing.independent``). An interval is the one in which eight of ten runs are expected.
Where two jobs are compared the constants are the same on both sides: what does not change between them
cancels.
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
from tuner.hardware import Cluster
from tuner.timing import spreads
from tuner.timing.estimate import PhaseTime, StepTime
from tuner.timing.independent import Ends, ends_of_unknowns, is_measured
from tuner.timing.operators import table_card
from tuner.timing.spreads import SpreadFamily
from tuner.workload import Phase

_NOTHING: Ends = (0.0, 0.0)
_OF_RESPONSES = frozenset(family.value for family in (SpreadFamily.LONGEST, SpreadFamily.GROUPS))


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
    r"""The interval of a whole step.

    With the :math:`d_u` seconds that unknown u leaves open upwards, of all phases together,

    .. math:: \sqrt{\sum_u d_u^2}

    is how far it reaches above the typical value; below it likewise. Where two sides run at once, either may
    turn out to be the longer one.
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

    The constants are the same before and after. With one unknown at an end of its spread the step takes B_u
    before and A_u after, where it takes B and A at their typical values: the share ``A_u / B_u - 1`` lies
    apart from ``A / B - 1`` by what the unknown leaves uncertain of it. All unknowns together: the root of
    the squares. On another card, other constants hold: what it leaves uncertain is independent of the first
    one's. Both steps are priced anew beside a fast host and a slow one: a GPU that has less to do waits
    longer for its host.

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
    first, second = _step_ends(before, cluster), _step_ends(after, then or cluster)
    for unknown in dict.fromkeys((*first, *second)):
        less, more = first.get(unknown, _NOTHING), second.get(unknown, _NOTHING)
        independent = other_card or (of_runs and unknown in _OF_RESPONSES)
        sources += [(less, _NOTHING), (_NOTHING, more)] if independent else [(less, more)]
    seconds, then_s = before.seconds, after.seconds
    share = then_s / seconds - 1
    lower = upper = 0.0
    for less, more in sources:
        ends = [(then_s + more[end]) / (seconds + less[end]) - 1 - share for end in (0, 1)]
        lower += min(0.0, *ends) ** 2
        upper += max(0.0, *ends) ** 2
    return StepChange(
        seconds=then_s - seconds,
        share=share,
        low_share=share - sqrt(lower),
        high_share=share + sqrt(upper),
    )


def interval(phases: Sequence[PhaseTime], cluster: Cluster, *, in_run: bool = True) -> Interval:
    """The interval of some phases together, which run one after the other.

    Args:
        phases: with their causes.
        cluster: the GPUs.
        in_run: of a training run; False: of passes by themselves, without what runs differ by.
    """
    ends = ends_of_unknowns(phases, cluster)
    if not in_run:
        del ends[SpreadFamily.RUNS.value]
    seconds = sum(time.seconds for time in phases)
    evidence, card = _basis(phases, cluster)
    return Interval(
        seconds=seconds,
        low_s=seconds - hypot(*(low for low, _ in ends.values())),
        high_s=seconds + hypot(*(high for _, high in ends.values())),
        evidence=evidence,
        rates_of=card,
    )


def _step_ends(step: StepTime, cluster: Cluster) -> dict[str, Ends]:
    """The ends of every unknown in a step, remembered with it: one job is compared with many proposals."""
    cached_ends: tuple[Cluster, dict[str, Ends]] | None = vars(step).get("ends")
    if cached_ends is None or cached_ends[0] != cluster:
        cached_ends = vars(step)["ends"] = cluster, ends_of_unknowns(step.deciding_phases, cluster)
    return cached_ends[1]


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
