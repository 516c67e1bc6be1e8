"""The layout that a launch was published with beside that of its plan, and what makes the difference."""

from collections.abc import Iterator

from msgspec import Struct

from tuner.advise.reading import Reading
from tuner.advise.refusals import started
from tuner.plan.answer import ClusterPlan
from tuner.plan.axes import Axis
from tuner.plan.judge import Judge
from tuner.plan.planning import PlanRequest, nearest, plan
from tuner.plan.space import all_axes, space_of
from tuner.rules.case import CaseFigures
from tuner.workload import Workload

_STRATEGY = "strategy"  # tells plans apart, and is no layout


class Reason(Struct, frozen=True, kw_only=True):
    """One axis of a plan: what a step takes with that put back alone."""

    axis: str
    value: str
    slower: float  # share of the plan's seconds
    fits: bool


class Published(Struct, frozen=True, kw_only=True):
    """The best setting on the layout of the launch: seconds, and how much longer than the plan's best."""

    layout_s: float | None  # None where nothing fits on that layout
    slower: float | None  # share of the plan's seconds
    reasons: tuple[Reason, ...]  # the largest first


def published(reading: Reading, planned: ClusterPlan, wanted: PlanRequest) -> Published | None:
    """What the published layout comes to; None where nothing is planned at all."""
    if planned.best is None:
        return None
    best_s = planned.best.time.seconds
    held = plan(reading, wanted, axes=_axes_within_layout).best
    # A search by steps may come further from one side than from the other.
    layout_s = None if held is None else held.time.seconds
    reasons = sorted(_reasons(reading, planned, wanted), key=lambda one: -one.slower)
    return Published(
        layout_s=layout_s,
        slower=None if layout_s is None else round(layout_s / best_s - 1, 4),
        reasons=tuple(one for one in reasons if one.slower >= 0.005 or not one.fits),
    )


def _axes_within_layout(workload: Workload) -> Iterator[Axis]:
    return (one for one in all_axes(workload) if not one.layout or one.name == _STRATEGY)


def _reasons(reading: Reading, planned: ClusterPlan, wanted: PlanRequest) -> Iterator[Reason]:
    best = planned.best
    if best is None:
        return
    start = started(reading, headroom=wanted.headroom, allow=())
    space, judge = space_of(start.reading), Judge(wanted.headroom)
    choice = nearest(space, best.workload)
    for place, axis in enumerate(space.axes):
        if choice[place]:
            without = space.workload((*choice[:place], 0, *choice[place + 1 :]))
            figures = CaseFigures(without)
            yield Reason(
                axis=axis.name,
                value=axis.options[choice[place]].text,
                slower=round(figures.time.seconds / best.time.seconds - 1, 4),
                fits=judge.failing(without, figures) is None,
            )
