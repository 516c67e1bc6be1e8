"""One job over numbers of GPUs and cards: what each takes, and the fewest that it fits on for certain."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tuner.hardware import Cluster
from tuner.plan.answer import ClusterPlan, PlannedSetting
from tuner.plan.gpus import which_gpus


class PlacedSetting(Struct, frozen=True, kw_only=True):
    """The fastest setting of a job that generates on GPUs of its own."""

    placement: str
    setting: PlannedSetting


class CapacityRow(Struct, frozen=True, kw_only=True):
    """The best setting of one cluster, and what it is beside that of the smallest one of the same card."""

    plan: ClusterPlan  # of the job where it is
    elsewhere: tuple[PlacedSetting, ...] = ()
    efficiency: float | None = None  # GPU-hours of the smallest cluster over those of this one

    @property
    def cluster(self) -> Cluster:
        """The GPUs."""
        return self.plan.cluster

    @property
    def placed(self) -> PlacedSetting | None:
        """The fastest placement, where it is faster than the job where that is, or that does not fit."""
        fastest = min(self.elsewhere, key=lambda one: one.setting.time.seconds, default=None)
        own = self.plan.best
        if fastest is None or own is None or fastest.setting.time.seconds < own.time.seconds:
            return fastest
        return None

    @property
    def least(self) -> PlannedSetting | None:
        """The setting that says that it fits: of the job where it is, and elsewhere where only that does."""
        return self.plan.best or self.best

    @property
    def best(self) -> PlannedSetting | None:
        """The fastest setting there, wherever it generates; None where nothing fits."""
        return self.plan.best if self.placed is None else self.placed.setting

    @property
    def placement(self) -> str:
        """Where that generates; empty: where the job does."""
        return "" if self.placed is None else self.placed.placement


def capacity(
    plans: Iterable[ClusterPlan], elsewhere: Iterable[tuple[Cluster, PlacedSetting | None]] = ()
) -> tuple[CapacityRow, ...]:
    """Plans as rows: by card in the order in which they were given, then by GPUs.

    Args:
        plans: of the job where it is.
        elsewhere: its placements on these clusters; None of what does not fit.
    """
    placed: dict[tuple[str, int, int], list[PlacedSetting]] = {}
    for cluster, setting in elsewhere:
        if setting is not None:
            placed.setdefault(which_gpus(cluster), []).append(setting)
    given = [
        CapacityRow(plan=plan, elsewhere=tuple(placed.get(which_gpus(plan.cluster), ()))) for plan in plans
    ]
    cards = list(dict.fromkeys(row.cluster.gpu.name for row in given))
    ordered = sorted(given, key=lambda row: (cards.index(row.cluster.gpu.name), row.cluster.gpus))
    return tuple(replace(row, efficiency=_efficiency(row, ordered)) for row in ordered)


def _efficiency(row: CapacityRow, rows: Sequence[CapacityRow]) -> float | None:
    smallest = fewest([other for other in rows if other.cluster.gpu.name == row.cluster.gpu.name])
    if row.best is None or smallest is None or smallest.best is None or row.best.gpu_hours <= 0:
        return None
    return smallest.best.gpu_hours / row.best.gpu_hours


def fewest(rows: Iterable[CapacityRow]) -> CapacityRow | None:
    """The fewest GPUs on which the job fits for certain; None where it fits on none."""
    fitting = [row for row in rows if row.best is not None]
    return min(fitting, key=lambda row: (row.cluster.gpus, row.cluster.nodes), default=None)
