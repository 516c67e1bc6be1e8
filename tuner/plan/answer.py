"""What a plan comes to: settings with their price, in the order of their seconds."""

from typing import Annotated

from msgspec import Meta, Struct

from tuner.field_marks import Bytes
from tuner.hardware import Cluster
from tuner.memory import Estimate
from tuner.other_base import OtherBase
from tuner.plan.gpus import step_gpu_hours
from tuner.plan.packages import PackageGain
from tuner.timing import Interval, StepTime, change, step_interval
from tuner.workload import Phase, Workload

_LEAST_TIED = 2
_MEASURED = 3  # settings at most: each takes minutes on a GPU


class PhaseRoom(Struct, frozen=True, kw_only=True):
    """What a phase takes of the card, and leaves of it at least."""

    phase: Phase
    peak_bytes: Bytes
    high_bytes: Annotated[int, Meta(description="bytes at the upper end of its interval")]
    spare_bytes: Annotated[int, Meta(description="bytes of the card that it leaves at the upper end")]


class LaunchNeeds(OtherBase, frozen=True, kw_only=True):
    """What a setting needs beside its lines: another configuration of its trainer than the job rests on."""

    without: Annotated[
        tuple[str, ...], Meta(description="keys of the launch that the other configuration does not have")
    ] = ()
    launch: Annotated[
        tuple[str, ...], Meta(description="the whole command; empty where lines and options are enough")
    ] = ()


class PlannedSetting(Struct, frozen=True, kw_only=True):
    """A setting that starts and fits for certain, as the trainer reads it from its overrides."""

    rank: Annotated[int, Meta(description="settings whose difference is uncertain share one")]
    overrides: tuple[str, ...]
    workload: Workload
    estimate: Estimate
    time: StepTime
    own: bool = False  # the job as it is
    with_package: PackageGain | None = None  # of the first setting alone
    needs: Annotated[
        LaunchNeeds | None, Meta(description="beside the lines, to start it; null where they are enough")
    ] = None

    @property
    def strategy(self) -> str:
        """What shards the policy."""
        return self.workload.actor.engine.backend.value

    @property
    def step(self) -> Interval:
        """Seconds of the whole step, with their interval."""
        return step_interval(self.time, self.workload.cluster)

    @property
    def gpu_hours(self) -> float:
        """GPU-hours of a step."""
        return step_gpu_hours(self.workload, self.time.seconds)

    @property
    def phases(self) -> tuple[PhaseRoom, ...]:
        """What every phase leaves free."""
        capacity = self.estimate.capacity_bytes
        return tuple(
            PhaseRoom(
                phase=one.phase,
                peak_bytes=one.peak_bytes,
                high_bytes=one.interval[1],
                spare_bytes=capacity - one.interval[1],
            )
            for one in self.estimate.phases
        )

    @property
    def fullest(self) -> Phase:
        """The phase that limits what could be larger."""
        return self.estimate.worst.phase

    @property
    def longest(self) -> Phase | None:
        """The phase that most of the step goes into; None of a job without seconds."""
        phases = self.time.deciding_phases
        return max(phases, key=lambda one: one.seconds).phase if phases else None


class Trade(Struct, frozen=True, kw_only=True):
    """A setting that no other one beats in seconds and in memory at once."""

    seconds: float
    peak_bytes: Bytes
    overrides: tuple[str, ...]


class StrategyBest(Struct, frozen=True, kw_only=True):
    """The fastest setting of one strategy, where several were asked about."""

    strategy: Annotated[str, Meta(description="as it was asked for")]
    setting: PlannedSetting | None
    reason: Annotated[str, Meta(description="why there is none; empty: there is one")] = ""


class Rejection(Struct, frozen=True, kw_only=True):
    """How many settings failed a constraint before any other."""

    constraint: str
    settings: int


class RefusedPart(Struct, frozen=True, kw_only=True):
    """A combination of values that the trainer or an engine refuses."""

    code: str
    message: str
    values: tuple[tuple[str, str], ...]


class Shortfall(Struct, frozen=True, kw_only=True):
    """A phase that lacks memory, and the least that it does."""

    phase: Phase
    missing_bytes: Bytes


class Lacking(Struct, frozen=True, kw_only=True):
    """What the setting that comes nearest lacks, where nothing fits."""

    phase: Phase | None  # None where something else is missing
    missing_bytes: int
    problems: tuple[str, ...]
    estimate: Estimate
    workload: Workload
    everywhere: Annotated[
        tuple[Shortfall, ...], Meta(description="phases that lack memory in every setting that was looked at")
    ] = ()


class ClusterPlan(Struct, frozen=True, kw_only=True):
    """The best settings of a job on one cluster."""

    cluster: Cluster
    settings: tuple[PlannedSetting, ...]  # one of each layout, the fastest first; none where nothing fits
    trades: Annotated[
        tuple[Trade, ...], Meta(description="settings that none beats in seconds and in memory at once")
    ] = ()
    looked_at: int = 0
    size: Annotated[int, Meta(description="settings that there are, legal or not")] = 0
    whole: Annotated[bool, Meta(description="all of them were looked at")] = False
    stopped: Annotated[bool, Meta(description="by the user, before the search had ended")] = False
    rejected: Annotated[
        tuple[Rejection, ...], Meta(description="the constraint that settings failed first")
    ] = ()
    refused: tuple[RefusedPart, ...] = ()
    decisions: Annotated[
        tuple[RefusedPart, ...],
        Meta(description="what refuses the job as it is, and what lifts it in every setting"),
    ] = ()
    lacking: Lacking | None = None
    strategies: Annotated[
        tuple[StrategyBest, ...], Meta(description="of --vary strategy=..., in its order; else empty")
    ] = ()
    unread: Annotated[str, Meta(description="why the job cannot be read on this cluster; empty: it can")] = ""

    @property
    def best(self) -> PlannedSetting | None:
        """The fastest setting; None where nothing fits."""
        return self.settings[0] if self.settings else None

    @property
    def undecided(self) -> tuple[PlannedSetting, ...]:
        """The settings that share the first rank and whose measurement would decide; none without a tie.

        The fastest one, and of the others those that may be ahead of it by most.
        """
        tied = [one for one in self.settings if one.rank == 1]
        if len(tied) < _LEAST_TIED:
            return ()
        first, *others = tied

        def ahead(other: PlannedSetting) -> float:
            return change(first.time, other.time, first.workload.cluster).low_share

        nearest = sorted(others, key=ahead)[: _MEASURED - 1]
        return (first, *(one for one in others if one in nearest))
