"""The collectives that are timed: buffers of so many bytes, and what works on them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

Work = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Collective:
    """One kind of collective, in the dtype that training uses it with."""

    dtype: torch.dtype
    make: Callable[[int, torch.dtype, torch.device], tuple[Work, Callable[[], bool]]]
    """Of the values of the whole: what runs, and whether its last run gave what it must."""


def _rank_and_world() -> tuple[int, int]:
    return dist.get_rank(), dist.get_world_size()


def _gather(count: int, dtype: torch.dtype, device: torch.device) -> tuple[Work, Callable[[], bool]]:
    rank, world = _rank_and_world()
    share = torch.full((count // world,), float(rank), dtype=dtype, device=device)
    whole = torch.empty(len(share) * world, dtype=dtype, device=device)

    def right() -> bool:
        return [part[0].item() for part in whole.chunk(world)] == list(range(world))

    return lambda: dist.all_gather_into_tensor(whole, share), right


def _scatter(count: int, dtype: torch.dtype, device: torch.device) -> tuple[Work, Callable[[], bool]]:
    rank, world = _rank_and_world()
    whole = torch.full((count // world * world,), float(rank), dtype=dtype, device=device)
    share = torch.empty(count // world, dtype=dtype, device=device)

    def right() -> bool:
        return share[-1].item() == world * (world - 1) / 2

    return lambda: dist.reduce_scatter_tensor(share, whole), right


def _all_reduce(count: int, dtype: torch.dtype, device: torch.device) -> tuple[Work, Callable[[], bool]]:
    whole = torch.zeros(count, dtype=dtype, device=device)  # zeros stay zeros, however often they are added

    def right() -> bool:
        ones = torch.ones(count, dtype=dtype, device=device)
        dist.all_reduce(ones)
        return ones[-1].item() == dist.get_world_size()

    return lambda: dist.all_reduce(whole), right


def _exchange(count: int, dtype: torch.dtype, device: torch.device) -> tuple[Work, Callable[[], bool]]:
    rank, world = _rank_and_world()
    sent = torch.full((count // world * world,), float(rank), dtype=dtype, device=device)
    received = torch.empty_like(sent)

    def right() -> bool:
        return [part[0].item() for part in received.chunk(world)] == list(range(world))

    return lambda: dist.all_to_all_single(received, sent), right


def _broadcast(count: int, dtype: torch.dtype, device: torch.device) -> tuple[Work, Callable[[], bool]]:
    whole = torch.full((count,), float(dist.get_rank() + 1), dtype=dtype, device=device)
    return lambda: dist.broadcast(whole, src=0), lambda: whole[-1].item() == 1


def _neighbours(count: int, dtype: torch.dtype, device: torch.device) -> tuple[Work, Callable[[], bool]]:
    rank, world = _rank_and_world()
    sent = torch.full((count,), float(rank), dtype=dtype, device=device)
    received = torch.empty_like(sent)
    operations = [
        dist.P2POp(dist.isend, sent, (rank + 1) % world),
        dist.P2POp(dist.irecv, received, (rank - 1) % world),
    ]

    def pass_on() -> None:
        for request in dist.batch_isend_irecv(operations):
            request.wait()

    return pass_on, lambda: received[0].item() == (rank - 1) % world


COLLECTIVES = {
    "all_gather": Collective(dtype=torch.bfloat16, make=_gather),  # weights
    "reduce_scatter": Collective(dtype=torch.float32, make=_scatter),  # gradients
    "all_reduce": Collective(dtype=torch.bfloat16, make=_all_reduce),  # activations of tensor parallelism
    "all_to_all": Collective(dtype=torch.bfloat16, make=_exchange),  # heads, tokens of experts
    "broadcast": Collective(dtype=torch.bfloat16, make=_broadcast),  # weights on their way to an engine
    "send": Collective(dtype=torch.bfloat16, make=_neighbours),  # to the next stage, and from the last
}
