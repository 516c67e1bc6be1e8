"""How many GPUs a job takes in all, and what that makes of its seconds."""

from tuner.hardware import Cluster
from tuner.workload import Workload

_SECONDS_OF_HOUR = 3600


def which_gpus(cluster: Cluster) -> tuple[str, int, int]:
    """What tells the clusters of a plan apart: the card, how many of them a node has, and the nodes."""
    return cluster.gpu.name, cluster.gpus_per_node, cluster.nodes


def apart_gpus(workload: Workload) -> int:
    """GPUs beside the trainer's: of a rollout engine and of services that have their own."""
    rollout = workload.rollout
    own = 0 if rollout is None or rollout.colocated else rollout.gpus
    return own + sum(service.gpus for service in workload.services if not service.shares_gpus)


def job_gpus(workload: Workload) -> int:
    """All GPUs of a job."""
    return workload.cluster.gpus + apart_gpus(workload)


def step_gpu_hours(workload: Workload, seconds: float) -> float:
    """GPU-hours of a step of so many seconds."""
    return seconds * job_gpus(workload) / _SECONDS_OF_HOUR
