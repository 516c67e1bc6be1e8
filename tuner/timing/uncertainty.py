"""Intervals of modelled seconds, and what is known of the difference between two jobs.

Every cause of seconds has a spread (:mod:`tuner.timing.spreads`). Causes of one family err together, so what
they add to an interval is added up; families err independently, so their sums are added as squares. Where two
jobs are compared the constants are the same on both sides: what does not change between them cancels.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import hypot

from msgspec import Struct

from tuner.evidence import Evidence
from tuner.hardware import Cluster, Gpu
from tuner.timing import spreads
from tuner.timing.estimate import PhaseTime, StepTime
from tuner.timing.operators import table_card
from tuner.timing.spreads import Cause, Family, Spread
from tuner.workload import Phase


class Interval(Struct, frozen=True, kw_only=True):
    """Modelled seconds with the least and the most that they may be, and what they rest on."""

    seconds: float
    low_s: float
    high_s: float
    evidence: Evidence
    rates_of: str  # the card whose measured rates or tables they rest on


class Change(Struct, frozen=True, kw_only=True):
    """Seconds that one job takes more than another, below zero where it is faster."""

    seconds: float
    low_s: float
    high_s: float

    @property
    def is_gain(self) -> bool:
        """Whether it is faster by more than the uncertainty of the difference."""
        return self.high_s < 0

    @property
    def is_loss(self) -> bool:
        """Whether it is slower by more than that."""
        return self.low_s > 0


Amounts = Mapping[tuple[Phase, str], float]
"""Seconds by phase and cause."""


def step_interval(time: StepTime, cluster: Cluster) -> Interval:
    """The interval of a whole step."""
    return _interval(time.phases, cluster)


def phase_interval(time: PhaseTime, cluster: Cluster) -> Interval:
    """The interval of one phase."""
    return _interval((time,), cluster)


def change(before: StepTime, after: StepTime, cluster: Cluster) -> Change:
    """The difference between two steps on the same GPUs, with what is uncertain of that difference alone.

    With seconds ``b_c`` and ``a_c`` of every cause c before and after, its difference lies between
    ``l_c (a_c - b_c)`` and ``h_c (a_c - b_c)`` for a spread of ``l_c`` to ``h_c``: what both have cancels.
    """
    first, second = dict(_amounts(before.phases)), dict(_amounts(after.phases))
    differences = {key: second.get(key, 0.0) - first.get(key, 0.0) for key in {**first, **second}}
    down, up = deviations(differences, cluster)
    seconds = after.seconds - before.seconds
    return Change(seconds=seconds, low_s=seconds - down, high_s=seconds + up)


def deviations(amounts: Amounts, cluster: Cluster) -> tuple[float, float]:
    """How far below and above their sum amounts of seconds may come out.

    For a family f with all of its causes at the low or the high end of their spreads at once,
    ``d_f = sum (h_c - 1) x_c`` or ``sum (l_c - 1) x_c``; families together ``sqrt(sum d_f^2)``.
    """
    low, high = defaultdict[Family, float](float), defaultdict[Family, float](float)
    for (phase, name), seconds in amounts.items():
        cause = spreads.cause_of(phase, name)
        spread = spread_on(cause, cluster)
        low[cause.family] += (spread.low - 1) * seconds
        high[cause.family] += (spread.high - 1) * seconds
    ends = [(low[family], high[family]) for family in low]
    return hypot(*(min(0.0, *pair) for pair in ends)), hypot(*(max(0.0, *pair) for pair in ends))


@lru_cache(maxsize=512)
def spread_on(cause: Cause, cluster: Cluster) -> Spread:
    """A cause's spread on these GPUs.

    A rate that was measured on this very card is as sure as the constant; of another card of its kind it may
    differ by some percent; of a kind without tables as much as published runs on it do. Between machines the
    network may be slower than the one that is assumed.
    """
    spread, gpu = cause.spread, cluster.gpu
    if cause.family in (Family.PRODUCTS, Family.MEMORY):
        if not is_measured(cause.family, gpu):
            spread = spread.and_also(spreads.of_error(spreads.CARD_ERROR))
            if table_card(gpu.name) != gpu.name:
                spread = spread.and_also(_of_another_kind(cause.family, gpu))
    elif cause.family is Family.LINKS and cluster.nodes > 1:
        spread = spread.and_also(spreads.NETWORK)
    return spread


def is_measured(family: Family, gpu: Gpu) -> bool:
    """Whether the card's profile has the rate of a family as it was measured on that card."""
    return gpu.measured is not None and getattr(gpu.measured, family.value, None) is not None


def _of_another_kind(family: Family, gpu: Gpu) -> Spread:
    return spreads.other_products(gpu.name) if family is Family.PRODUCTS else spreads.OTHER_MEMORY


def _interval(phases: Iterable[PhaseTime], cluster: Cluster) -> Interval:
    amounts = dict(_amounts(phases))
    down, up = deviations(amounts, cluster)
    seconds = sum(amounts.values())
    evidence, card = _basis(amounts, cluster.gpu)
    return Interval(
        seconds=seconds, low_s=seconds - down, high_s=seconds + up, evidence=evidence, rates_of=card
    )


def _amounts(phases: Iterable[PhaseTime]) -> Iterator[tuple[tuple[Phase, str], float]]:
    for time in phases:
        for name, seconds in time.parts:
            yield (time.phase, name), seconds


def _basis(amounts: Amounts, gpu: Gpu) -> tuple[Evidence, str]:
    """What seconds rest on, by the causes that take most of them, and the card that was measured for it."""
    weights = defaultdict[tuple[Evidence, str], float](float)
    for (phase, name), seconds in amounts.items():
        cause = spreads.cause_of(phase, name)
        measured = is_measured(cause.family, gpu)
        card = gpu.name if measured else table_card(gpu.name)
        weights[Evidence.MEASURED if measured else cause.evidence, card] += seconds
    return max(weights, key=lambda basis: weights[basis])
