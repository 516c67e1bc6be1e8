"""Seconds of collectives between GPUs.

Between as many GPUs of one machine as were measured on a card of the kind they are read from its table,
unless the profile has the rate of the machine at hand. All others go by the rate of a ring and what is
beside it.
"""

from math import ceil, log2

from msgspec import Struct

from tuner.hardware import Cluster
from tuner.timing import assumptions as assume
from tuner.timing.job import Parts
from tuner.timing.measured_tables import Collective
from tuner.timing.operators import collectives_of
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


def latency_seconds(cluster: Cluster, ranks: int, *, stride: int = 1, rounds: int = 1) -> float:
    """Seconds of a collective beside its bytes: a fixed part, and a step from rank to rank of a ring.

    Across nodes one of the steps into each node crosses the network. An all-reduce goes twice round a ring in
    a node, and over several nodes up and down a tree of them.

    Args:
        cluster: where the ranks are.
        ranks: how many.
        stride: GPUs from one of them to the next.
        rounds: 1 for a gather or a reduction to shards, 2 for an all-reduce.
    """
    members = max(1, min(ranks, cluster.gpus_per_node // max(1, stride)))
    nodes = ceil(ranks / members)
    if rounds == 1:
        crossings, steps = nodes - 1, ranks - nodes
    else:
        crossings, steps = 2 * ceil(log2(nodes)), 2 * (members - 1)
    return assume.COLLECTIVE_S + steps * assume.NODE_HOP_S + crossings * assume.NETWORK_HOP_S


def measured_seconds(
    kind: Collective, size: float, cluster: Cluster, ranks: int, *, stride: int = 1
) -> float | None:
    """Seconds of a collective as a table has them; None where it does not hold.

    Args:
        kind: of the collective.
        size: bytes of the whole.
        cluster: where the ranks are.
        ranks: how many.
        stride: GPUs from one of them to the next.
    """
    figures = cluster.gpu.measured
    if ranks * stride > cluster.gpus_per_node or (figures and figures.link_bytes_per_s is not None):
        return None
    table = collectives_of(cluster.gpu.name, ranks)
    return None if table is None else table.seconds(kind, size)


def gather_seconds(bytes_whole: float, cluster: Cluster, ranks: int, *, stride: int = 1) -> float:
    """All-gather of ``bytes_whole``: each GPU moves ``S (r - 1) / r`` bytes."""
    return _ring_seconds(Collective.ALL_GATHER, bytes_whole, cluster, ranks, stride)


def reduce_scatter_seconds(bytes_whole: float, cluster: Cluster, ranks: int, *, stride: int = 1) -> float:
    """Reduce-scatter of ``bytes_whole``: as many bytes as an all-gather moves."""
    return _ring_seconds(Collective.REDUCE_SCATTER, bytes_whole, cluster, ranks, stride)


def _ring_seconds(kind: Collective, bytes_whole: float, cluster: Cluster, ranks: int, stride: int) -> float:
    if ranks < 2 or bytes_whole <= 0:
        return 0.0
    measured_s = measured_seconds(kind, bytes_whole, cluster, ranks, stride=stride)
    if measured_s is not None:
        return measured_s
    moved = bytes_whole * (ranks - 1) / ranks
    latency_s = latency_seconds(cluster, ranks, stride=stride)
    return moved / ring_bytes_per_s(cluster, ranks, stride=stride) + latency_s


def all_reduce_seconds(bytes_whole: float, cluster: Cluster, ranks: int, *, stride: int = 1) -> float:
    """All-reduce: a reduce-scatter and an all-gather of the same bytes, launched as one."""
    if ranks < 2 or bytes_whole <= 0:
        return 0.0
    measured_s = measured_seconds(Collective.ALL_REDUCE, bytes_whole, cluster, ranks, stride=stride)
    if measured_s is not None:
        return measured_s
    moved = 2 * bytes_whole * (ranks - 1) / ranks
    latency_s = latency_seconds(cluster, ranks, stride=stride, rounds=2)
    return moved / ring_bytes_per_s(cluster, ranks, stride=stride) + latency_s


def all_to_all_seconds(bytes_local: float, cluster: Cluster, ranks: int, *, stride: int = 1) -> float:
    """All-to-all: each GPU sends ``(r - 1) / r`` of what it holds to the others, to all at a time."""
    if ranks < 2 or bytes_local <= 0:
        return 0.0
    measured_s = measured_seconds(Collective.ALL_TO_ALL, bytes_local, cluster, ranks, stride=stride)
    if measured_s is not None:
        return measured_s
    moved = bytes_local * (ranks - 1) / ranks
    hop = assume.NODE_HOP_S if ranks * stride <= cluster.gpus_per_node else assume.NETWORK_HOP_S
    return moved / pairwise_bytes_per_s(cluster, ranks, stride=stride) + assume.COLLECTIVE_S + hop


class OverlapTime(Struct, frozen=True, kw_only=True):
    """One layer in one direction: what runs side by side, and how long it takes in the end."""

    compute: float
    exchange: float  # collectives between its own kernels, which nothing hides
    copies: float  # of weights and gradients among its own kernels
    launch: float
    waits: float  # of the GPU for a host that waits for it
    gather: float  # collectives beside it: next weights, last gradients
    offload: float  # copies of activations to or from the host
    launch_delays_gather: (
        bool  # the host waits among this layer's kernels, and issues the next gather behind them
    )
    late_share: float = 0.0  # of the launches, those behind that wait
    early: float = 0.0  # kernels that need the gathered weights and end before the next wait

    def parts(self) -> Parts:
        """Seconds by cause: the computation, and how long each of the others keeps it waiting."""
        busy = self.compute + self.exchange + self.copies
        launched = max(busy, self.launch) + self.waits
        chain = self.gather
        if self.launch_delays_gather:
            chain += self.waits + self.late_share * self.launch + self.early
        waited = max(launched, chain)
        gathered = max(waited, side_by_side_seconds(busy + self.waits, self.gather))
        return {
            "compute": self.compute,
            "communication": self.exchange + waited - launched,
            "contention": gathered - waited,
            "copies": self.copies,
            "launch": launched - busy,
            "offload": max(gathered, self.offload) - gathered,
        }


def side_by_side_seconds(computing: float, gathering: float) -> float:
    """Kernels and collectives that begin together and share the card's multiprocessors and memory.

    Beside a collective products take c times as long, and the collective g times beside products, until the
    shorter of both has ended: ``max(C + g G (1 - 1 / c), G + c C (1 - 1 / g))``.

    Args:
        computing: C, seconds of the kernels by themselves.
        gathering: G, seconds of the collectives by themselves.
    """
    slower, later = assume.PRODUCT_BESIDE, assume.COLLECTIVE_BESIDE
    return max(
        computing + later * gathering * (1 - 1 / slower), gathering + slower * computing * (1 - 1 / later)
    )
