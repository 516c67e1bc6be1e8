"""Plans under several strategies as one: one order of all settings, one set that nothing beats.

A setting has one strategy, and what a trainer refuses under one says nothing of another. So all settings of
all strategies are one space that falls into parts, each of which is searched by itself: the fastest of all is
the fastest of one part, and what nothing beats in its own part is all that can be unbeaten among all.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from tuner.language import _
from tuner.plan.answer import ClusterPlan, PlannedSetting, RefusedPart, Rejection, StrategyBest, Trade
from tuner.plan.pareto import unbeaten
from tuner.plan.ranking import MOST, MOST_SLOWER, ranks_of


def together(plans: Sequence[tuple[str, ClusterPlan]], *, most: int = MOST) -> ClusterPlan:
    """The plans of one job under several strategies as one.

    Args:
        plans: by the names under which they were asked for.
        most: settings that are wanted, besides the fastest one of each strategy.
    """
    made = [plan for _name, plan in plans]
    settings = _ranked(made, most)
    lacking = [plan.lacking for plan in made if plan.lacking is not None]
    return ClusterPlan(
        cluster=made[0].cluster,
        settings=settings,
        trades=_unbeaten(trade for plan in made for trade in plan.trades),
        looked_at=sum(plan.looked_at for plan in made),
        size=sum(plan.size for plan in made),
        whole=all(plan.whole for plan in made if plan.size),
        stopped=any(plan.stopped for plan in made),
        rejected=_rejected(made),
        refused=_once(part for plan in made for part in plan.refused),
        decisions=_once(part for plan in made if plan.settings or not settings for part in plan.decisions),
        lacking=None if settings else min(lacking, key=lambda one: one.missing_bytes, default=None),
        strategies=tuple(_best(name, plan) for name, plan in plans),
        unread="" if any(not plan.unread for plan in made) else made[0].unread,
    )


def _ranked(plans: Sequence[ClusterPlan], most: int) -> tuple[PlannedSetting, ...]:
    """The fastest settings of all layouts of all strategies, and the fastest of each strategy in any case."""
    ordered = sorted((one for plan in plans for one in plan.settings), key=lambda one: one.time.seconds)
    firsts = [plan.best for plan in plans if plan.best is not None]
    kept = [
        one
        for place, one in enumerate(ordered)
        if (place < most and one.time.seconds <= MOST_SLOWER * ordered[0].time.seconds)
        or any(one is first for first in firsts)
    ]
    ranks = ranks_of([(one.time, one.workload.cluster) for one in kept])
    return tuple(
        replace(one, rank=rank, with_package=one.with_package if one is kept[0] else None)
        for rank, one in zip(ranks, kept, strict=True)
    )


def _unbeaten(trades: Iterable[Trade]) -> tuple[Trade, ...]:
    """Trades that none beats, the fastest first; of two that are alike the first one."""
    points = {(one.seconds, one.peak_bytes): one for one in reversed(list(trades))}
    kept = unbeaten(list(points))
    ordered = [one for one, stays in zip(points.values(), kept, strict=True) if stays]
    return tuple(sorted(ordered, key=lambda one: one.seconds))


def _rejected(plans: Sequence[ClusterPlan]) -> tuple[Rejection, ...]:
    numbers: Counter[str] = Counter()
    for plan in plans:
        numbers.update({one.constraint: one.settings for one in plan.rejected})
    return tuple(Rejection(constraint=name, settings=number) for name, number in numbers.most_common())


def _once(parts: Iterable[RefusedPart]) -> tuple[RefusedPart, ...]:
    return tuple(dict.fromkeys(parts))


def _best(name: str, plan: ClusterPlan) -> StrategyBest:
    reason = ""
    if plan.best is None:
        reasons = [plan.unread, *(f"{one.code}: {one.message}" for one in plan.decisions)]
        reason = next(filter(None, reasons), "") or _("nothing is sure to fit")
    return StrategyBest(strategy=name, setting=plan.best, reason=reason)
