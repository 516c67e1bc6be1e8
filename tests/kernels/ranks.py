"""What one rank of a group computes; the tests start several, each in its own process.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path as FilePath
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tests.kernels.exact import DEVICE, IGNORED, Case, random_case
from tuner.kernels import linear_cross_entropy, tiles
from tuner.kernels.tiles import Path

Results = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A head on shards of a vocabulary; ``changes`` are what else the function is told."""

    shards: tuple[int, ...]
    path: Path | None  # the one that the device calls for where it is None
    tokens: int = 21
    hidden: int = 16
    dtype: torch.dtype = torch.float32
    offsets: tuple[float, ...] = ()  # of each shard's logits
    upstream: str = "same"  # on all ranks; or "of a rank", where each has other rows; or "none"
    all_ignored: bool = False
    compiled: bool = False
    changes: dict[str, Any] = field(default_factory=dict)

    def case(self) -> Case:
        """All of it; labels at both ends of each shard."""
        case = random_case(self.tokens, self.hidden, sum(self.shards), self.dtype)
        ends = torch.tensor(self.shards, device=DEVICE).cumsum(0)
        edges = torch.cat((ends - 1, ends - torch.tensor(self.shards, device=DEVICE)))
        used = (case.labels != IGNORED).nonzero().squeeze(1)[: len(edges)]
        case.labels[used] = edges[: len(used)]
        if self.all_ignored:
            case.labels.fill_(IGNORED)
        if self.upstream == "none":
            case.d_log_probs.zero_()
            case.d_entropy.zero_()
        if self.offsets:
            with torch.no_grad():
                case.hidden[:, -1] = 1
                for part, offset in zip(case.weight.split(self.shards), self.offsets, strict=True):
                    part[:, -1] = offset
        return case


def upstream(run: Run, case: Case, rank: int) -> tuple[Tensor, Tensor]:
    """Gradients of both results on a rank."""
    if run.upstream != "of a rank":
        return case.d_log_probs, case.d_entropy
    own = torch.arange(run.tokens, device=case.hidden.device) % len(run.shards) == rank
    return case.d_log_probs * own, case.d_entropy * own


def compute(run: Run, case: Case, rank: int, group: dist.ProcessGroup | None) -> Results:
    """Results and gradients on this rank; those of the whole vocabulary where there is no group."""
    hidden = case.hidden.detach().requires_grad_()
    shard = case.weight.detach() if group is None else case.weight.detach().split(run.shards)[rank]
    weight = shard.clone().requires_grad_()

    def head(hidden: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        return linear_cross_entropy(
            hidden, weight, case.labels, case.temperature, process_group=group, **run.changes
        )

    called: Callable[..., tuple[Tensor, Tensor]] = head
    if run.compiled:
        called = torch.compile(head, fullgraph=True, backend="aot_eager")
    with tiles.only(run.path) if run.path else nullcontext():
        log_probs, entropy = called(hidden, weight)
        d_log_probs, d_entropy = upstream(run, case, rank)
        if log_probs.dim() == 0:
            d_log_probs = torch.ones_like(log_probs)
        d_hidden, d_weight = torch.autograd.grad(
            (log_probs, entropy), (hidden, weight), (d_log_probs, d_entropy)
        )
    results = {"log_probs": log_probs, "entropy": entropy, "d_hidden": d_hidden, "d_weight": d_weight}
    return {name: value.detach().cpu() for name, value in results.items()}


def _outcome(run: Run, rank: int, group: dist.ProcessGroup) -> dict[str, Any]:
    case = run.case()
    whole = replace(run, changes={k: v for k, v in run.changes.items() if k != "sum_hidden_gradient"})
    return {
        "case": {name: value.detach().cpu() for name, value in vars(case).items()},
        "results": [compute(run, case, rank, group) for _ in range(2)],
        "whole": compute(replace(whole, compiled=False), case, rank, None),
    }


def said(rank: int, group: dist.ProcessGroup, arguments: dict[str, Tensor]) -> str:
    """The error of two ranks of three and four entries; empty where there is none."""
    weight = torch.ones(3 + rank, 4, device=DEVICE)
    try:
        linear_cross_entropy(weight=weight, process_group=group, **arguments)
    except ValueError as error:
        return str(error)
    return ""


def refusals(rank: int, group: dist.ProcessGroup) -> dict[str, str]:
    """What a rank says to arguments of which one is wrong, if on rank 1 only."""
    size = 3 + 3 + 1  # of two ranks
    right = {
        "hidden": torch.ones(2, 4, device=DEVICE),
        "labels": torch.tensor([0, size - 1], device=DEVICE),
        "temperature": torch.ones(2, device=DEVICE),
    }
    one_more = torch.ones(3, device=DEVICE)
    wrong: dict[str, dict[str, Tensor]] = {
        "nothing": {},
        "label": {"labels": torch.tensor([0, size], device=DEVICE)},
        "negative label": {"labels": torch.tensor([-1, 0], device=DEVICE)},
        "temperature": {"temperature": torch.zeros(2, device=DEVICE)},
        "other labels": {"labels": torch.tensor([1, size - 1], device=DEVICE)},
        "other ignored": {"labels": torch.tensor([IGNORED, size - 1], device=DEVICE)},
        "other temperature": {"temperature": torch.full((2,), 2.0, device=DEVICE)},
        "more rows": {
            "hidden": torch.ones(3, 4, device=DEVICE),
            "labels": one_more.long(),
            "temperature": one_more,
        },
        "no rows": {
            "hidden": torch.ones(0, 4, device=DEVICE),
            "labels": one_more[:0].long(),
            "temperature": one_more[:0],
        },
    }
    return {name: said(rank, group, right | (changes if rank else {})) for name, changes in wrong.items()}


def work(rank: int, world: int, folder: str, runs: dict[str, Run]) -> None:
    """Compute them all, each twice, and leave what was found in ``folder``."""
    cuda = DEVICE == "cuda"
    if cuda:
        torch.cuda.set_device(rank)
    torch.use_deterministic_algorithms(True)  # so that new tensors are full of NaN
    dist.init_process_group(
        "nccl" if cuda else "gloo",
        init_method=(FilePath(folder) / "store").as_uri(),
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=120),
    )
    group = dist.new_group(list(range(world)))
    assert isinstance(group, dist.ProcessGroup)
    outcomes: dict[str, Any] = {name: _outcome(run, rank, group) for name, run in runs.items()}
    if world == 2:
        outcomes["refusals"] = refusals(rank, group)
    torch.save(outcomes, FilePath(folder) / f"{rank}.pt")
    dist.destroy_process_group()
