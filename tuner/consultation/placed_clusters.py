"""The placements of a job on every cluster that it is planned on."""

import time
from collections.abc import Iterator, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from tuner.consultation.consult import job_of
from tuner.consultation.job import JobReading
from tuner.consultation.placement import PlacementPlan, Planner, placement_plans
from tuner.consultation.planned_clusters import (
    ClusterQuestion,
    PlannedCluster,
    PlannedJob,
    Watch,
    planned_on,
    without_number,
)
from tuner.consultation.splits import divisions
from tuner.consultation.strategies import as_it_is
from tuner.files import STANDARD_INPUT, files_unchanged
from tuner.hardware import Cluster
from tuner.plan.answer import ClusterPlan
from tuner.plan.planning import PlanRequest
from tuner.plan.search import SearchProgress
from tuner.trainers.placement import Placement

_FEW = 40  # divisions of GPUs that one process plans in less time than others take to start and read the job
_MOST = 8  # processes, each of which has what one process has on its own
_TOLD_S = 0.2  # between two reports of a process


def placed_on_all(
    asked: ClusterQuestion,
    wanted: Sequence[Placement],
    clusters: Sequence[PlannedCluster],
    *,
    processes: int = 1,
) -> Iterator[PlacementPlan]:
    """The placements of one cluster after the other; none where the job cannot be read.

    Args:
        asked: what is asked of every cluster.
        wanted: placements.
        clusters: with the plan of the job where it is.
        processes: in which they are planned at most.

    Raises:
        KeyboardInterrupt: the user has ended a search.
    """
    read = [(one.job, as_it_is(one.plan)) for one in clusters if one.job is not None]
    sizes = [_divisions(plan.cluster) for _job, plan in read]
    several = min(processes, _MOST, len(read) * len(wanted))
    if several < 2 or sum(sizes) * len(wanted) < _FEW or asked.source == STANDARD_INPUT:
        for job, plan in read:
            yield from placement_plans(_planner(asked, job), wanted, plan)
        return
    from tuner.consultation.side_by_side import side_by_side  # few plans are so large

    # Placements of one cluster share most of what is worked out, as long as there is enough for everybody.
    groups = [tuple(wanted)] if len(read) >= 2 * several else [(one,) for one in wanted]
    parts = [
        _Part(
            asked=replace(asked, watch=None, premises=job.premises),
            before=job.before,
            wanted=group,
            colocated=replace(plan, settings=plan.settings[:1], trades=(), refused=()),
        )
        for job, plan in read
        for group in groups
    ]
    largest_first = sorted(range(len(parts)), key=lambda place: -sizes[place // len(groups)])
    made = side_by_side(_placed, parts, processes=several, begin_with=largest_first, watch=asked.watch)
    for plans in made:
        yield from plans


def _divisions(cluster: Cluster) -> int:
    return sum(map(len, divisions(cluster.gpus_per_node, cluster.nodes)))


class _Part(Struct, frozen=True, kw_only=True):
    """What one process plans at a time: a job on one cluster, which it reads itself."""

    asked: ClusterQuestion  # with the premises of that cluster
    before: tuple[str, ...]
    wanted: tuple[Placement, ...]
    colocated: ClusterPlan


@files_unchanged()
def _placed(part: _Part) -> list[PlacementPlan]:
    """The placements of a part, planned in another process."""
    from tuner.consultation.side_by_side import is_heard

    asked = replace(part.asked, watch=_Report() if is_heard() else None)
    read, premises = job_of(asked.source, (*asked.words, *part.before), asked.premises)
    job = PlannedJob(read=read, premises=premises, before=part.before)
    return list(placement_plans(_planner(asked, job), part.wanted, part.colocated))


class _Report:
    """Tells the first process now and then how far a search is."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, cluster: Cluster, progress: SearchProgress) -> None:
        from tuner.consultation.side_by_side import tell

        now = time.monotonic()
        if now - self._last >= _TOLD_S:
            self._last = now
            tell(cluster, progress)


def _planner(asked: ClusterQuestion, job: PlannedJob) -> Planner:
    """How the placements of a job are planned on the GPUs that it was read for."""
    undivided = tuple(text for text in asked.undivided if text not in job.before)
    return Planner(
        job=job.read,
        source=asked.source,
        words=(*asked.words, *job.before),
        before=(*asked.given, *job.before),
        undivided=undivided,
        premises=replace(job.premises, gpu=without_number(job.premises.gpu)),
        plan=partial(_plan, replace(asked.wanted, decides=False), asked.watch),
    )


def _plan(wanted: PlanRequest, watch: Watch | None, job: JobReading, before: Sequence[str]) -> ClusterPlan:
    """The plan of a job that is placed elsewhere: nothing else of its training may change for that."""
    return planned_on(job, wanted, watch, before)
