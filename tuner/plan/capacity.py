"""One job over numbers of GPUs and cards: what each takes, and the fewest that it fits on for certain."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tuner.hardware import Cluster
from tuner.plan.answer import ClusterPlan, PlannedSetting


class CapacityRow(Struct, frozen=True, kw_only=True):
    """The best setting of one cluster, and what it is beside that of the smallest one of the same card."""

    plan: ClusterPlan
    efficiency: float | None = None  # GPU-hours of the smallest cluster over those of this one

    @property
    def cluster(self) -> Cluster:
        """The GPUs."""
        return self.plan.cluster

    @property
    def best(self) -> PlannedSetting | None:
        """The fastest setting there; None where nothing fits."""
        return self.plan.best


def capacity(plans: Iterable[ClusterPlan]) -> tuple[CapacityRow, ...]:
    """Plans as rows: by card in the order in which they were given, then by GPUs."""
    given = list(plans)
    cards = list(dict.fromkeys(plan.cluster.gpu.name for plan in given))
    ordered = sorted(given, key=lambda plan: (cards.index(plan.cluster.gpu.name), plan.cluster.gpus))
    return tuple(CapacityRow(plan=plan, efficiency=_efficiency(plan, ordered)) for plan in ordered)


def _efficiency(plan: ClusterPlan, plans: Sequence[ClusterPlan]) -> float | None:
    smallest = fewest([other for other in plans if other.cluster.gpu.name == plan.cluster.gpu.name])
    if plan.best is None or smallest is None or smallest.best is None or plan.best.gpu_hours <= 0:
        return None
    return smallest.best.gpu_hours / plan.best.gpu_hours


def fewest(plans: Iterable[ClusterPlan]) -> ClusterPlan | None:
    """The plan on the fewest GPUs on which the job fits for certain; None where it fits on none."""
    fitting = [plan for plan in plans if plan.best is not None]
    return min(fitting, key=lambda plan: (plan.cluster.gpus, plan.cluster.nodes), default=None)
