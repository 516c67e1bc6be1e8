"""Collectives between the GPUs at a model's sizes: what NCCL holds, times, and whether values are right."""

from collections.abc import Mapping
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor

from tuner.validate.collectives.readings import CollectiveReadings, CommunicatorBytes, Exchanged
from tuner.validate.machine.worker.card import non_torch_bytes
from tuner.validate.training.worker.ulysses import Sharing
from tuner.validate.worker.timing import Work, repeated

_TIMED_S = 0.3
_WARM_UP_S = 0.1


def measure(
    units: Mapping[str, int], exchanged: tuple[int, int, int] | None, *, device: str
) -> CollectiveReadings:
    """Run every collective on all ranks of the process group.

    Args:
        units: parameters of what FSDP gathers at once, by name.
        exchanged: tokens on one GPU, heads and width of a head, of which Ulysses exchanges halves, thirds and
            so on; None where the heads cannot be divided by the ranks.
        device: of ``torch.device``.
    """
    where = torch.device(device)
    held = _communicator_bytes(where) if where.type == "cuda" else None
    return CollectiveReadings(
        held=held,
        latency_s=_seconds(_gather(1, where), where),
        gathers={name: _gathered(count, where) for name, count in units.items()},
        scatters={name: _scattered(count, where) for name, count in units.items()},
        exchange=None if exchanged is None else _exchanged(*exchanged, where),
    )


def _communicator_bytes(device: torch.device) -> CommunicatorBytes:
    one = torch.ones(dist.get_world_size(), device=device)
    other = torch.empty_like(one)
    before = non_torch_bytes()
    dist.all_reduce(one)
    first = non_torch_bytes()
    dist.all_to_all_single(other, one)
    exchange = non_torch_bytes()
    group = dist.new_group()
    dist.all_reduce(one, group=group)
    held = CommunicatorBytes(
        first=first - before, exchange=exchange - first, further=non_torch_bytes() - exchange
    )
    dist.destroy_process_group(group)
    return held


def _seconds(work: Work, device: torch.device) -> float | None:
    """Median, None on a CPU; the same number of repetitions on all ranks."""
    work()
    if device.type != "cuda":
        return None
    seconds = torch.tensor([median(repeated(work, seconds=0.0))], device=device)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    repetitions = max(1, round(_TIMED_S / seconds.item()))
    for _ in range(max(1, round(_WARM_UP_S / seconds.item()))):
        work()
    return median(repeated(work, seconds=0.0, least=repetitions))


def _shares(parameters: int) -> int:
    """Values of one rank."""
    return -(-parameters // dist.get_world_size())


def _gather(parameters: int, device: torch.device) -> Work:
    share = torch.full((_shares(parameters),), float(dist.get_rank()), dtype=torch.bfloat16, device=device)
    whole = torch.empty(len(share) * dist.get_world_size(), dtype=share.dtype, device=device)

    def gather() -> Tensor:
        dist.all_gather_into_tensor(whole, share)
        return whole

    return gather


def _gathered(parameters: int, device: torch.device) -> Exchanged:
    """All-gather of weights in bf16; every rank's are its number."""
    gather = _gather(parameters, device)
    seconds = _seconds(gather, device)
    whole = gather()
    assert isinstance(whole, Tensor)
    ranks = torch.arange(dist.get_world_size(), device=device, dtype=whole.dtype)
    wrong = whole.view(len(ranks), -1) != ranks[:, None]
    return Exchanged(whole_bytes=whole.nbytes, seconds=seconds, wrong_share=_mean(wrong))


def _scattered(parameters: int, device: torch.device) -> Exchanged:
    """Reduce-scatter of gradients in float32: those of a share are its number, and each rank has its own."""
    world, rank = dist.get_world_size(), dist.get_rank()
    share = torch.empty(_shares(parameters), device=device)
    whole = torch.full((world * len(share),), float(rank), device=device)
    for number, part in enumerate(whole.chunk(world)):
        part += number

    def scatter() -> Tensor:
        dist.reduce_scatter_tensor(share, whole)
        return share

    seconds = _seconds(scatter, device)
    scatter()
    expected = world * rank + world * (world - 1) // 2
    return Exchanged(whole_bytes=whole.nbytes, seconds=seconds, wrong_share=_mean(share != expected))


def _exchanged(tokens: int, heads: int, width: int, device: torch.device) -> Exchanged:
    """Ulysses: from a share of the sequence with all heads to the whole sequence with a share of them."""
    rank, world = dist.get_rank(), dist.get_world_size()
    ranks = Sharing(ranks=world, rank=rank)
    own = _values(rank, tokens, heads, width, device)
    seconds = _seconds(lambda: ranks.whole_sequence(own), device)
    exchanged = ranks.whole_sequence(own)
    share = slice(rank * heads // world, (rank + 1) * heads // world)
    wrong = [
        _mean(part != _values(other, tokens, heads, width, device)[:, share])
        for other, part in enumerate(exchanged.chunk(world))
    ]
    wrong.append(_mean(ranks.all_heads(exchanged) != own))
    return Exchanged(whole_bytes=own.nbytes * world, seconds=seconds, wrong_share=sum(wrong) / len(wrong))


def _values(rank: int, tokens: int, heads: int, width: int, device: torch.device) -> Tensor:
    generator = torch.Generator(device).manual_seed(rank)
    return torch.randn(tokens, heads, width, generator=generator, device=device, dtype=torch.bfloat16)


def _mean(wrong: Tensor) -> float:
    """Share of all values of all ranks."""
    counts = torch.tensor([int(wrong.count_nonzero()), wrong.numel()], device=wrong.device)
    dist.all_reduce(counts)
    return int(counts[0]) / int(counts[1])
