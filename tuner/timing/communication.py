"""Seconds of collectives between GPUs."""

from tuner.hardware import Cluster
from tuner.timing import assumptions as assume
from tuner.timing.rates import link_bytes_per_s


def ring_bytes_per_s(cluster: Cluster, ranks: int, *, stride: int = 1) -> float:
    """Rate of a ring over ``ranks`` GPUs that are ``stride`` apart.

    Within a node the link between GPUs; across nodes NCCL lays one ring per network card, so the
    cards of all members in a node carry the traffic together, never faster than the link.
    """
    members = max(1, min(ranks, cluster.gpus_per_node // max(1, stride)))
    link = link_bytes_per_s(cluster.gpu)
    if members < ranks:
        link = min(link, members * cluster.network_bytes_per_s * assume.LINK_SHARE)
    return link


def pairwise_bytes_per_s(cluster: Cluster, ranks: int, *, stride: int = 1) -> float:
    """Rate of one GPU in an all-to-all, whose messages to other nodes leave by its own network card."""
    inside = ranks * stride <= cluster.gpus_per_node
    link = link_bytes_per_s(cluster.gpu)
    return link if inside else min(link, cluster.network_bytes_per_s * assume.LINK_SHARE)


def gather_seconds(bytes_whole: float, cluster: Cluster, ranks: int, *, stride: int = 1) -> float:
    """All-gather (or reduce-scatter) of ``bytes_whole``: each GPU moves ``S (r - 1) / r`` bytes."""
    if ranks < 2 or bytes_whole <= 0:
        return 0.0
    moved = bytes_whole * (ranks - 1) / ranks
    return moved / ring_bytes_per_s(cluster, ranks, stride=stride) + assume.COLLECTIVE_S


def all_reduce_seconds(bytes_whole: float, cluster: Cluster, ranks: int, *, stride: int = 1) -> float:
    """All-reduce: a reduce-scatter and an all-gather of the same bytes, launched as one."""
    if ranks < 2 or bytes_whole <= 0:
        return 0.0
    moved = 2 * bytes_whole * (ranks - 1) / ranks
    return moved / ring_bytes_per_s(cluster, ranks, stride=stride) + assume.COLLECTIVE_S


def all_to_all_seconds(bytes_local: float, cluster: Cluster, ranks: int, *, stride: int = 1) -> float:
    """All-to-all: each GPU sends ``(r - 1) / r`` of what it holds to the others."""
    if ranks < 2 or bytes_local <= 0:
        return 0.0
    moved = bytes_local * (ranks - 1) / ranks
    return moved / pairwise_bytes_per_s(cluster, ranks, stride=stride) + assume.COLLECTIVE_S
