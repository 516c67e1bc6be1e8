"""Ulysses sequence parallelism: a part of the tokens on each rank, and within attention a part of the heads.

Source: verl 0.9.1 ``utils/ulysses.py``, ``models/transformers/monkey_patch.py``
(``_ulysses_flash_attention_forward``), ``workers/engine/fsdp/transformer_impl.py`` (``prepare_model_inputs``,
``prepare_model_outputs``, ``forward_backward_batch``).

T: tokens of all sequences. P: those of one rank. S: ranks that share them. A: heads. D: head size.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional

from tuner.workload import Engine


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """The ranks that share the sequences of a micro-batch, as one of them sees it."""

    ranks: int = 1
    rank: int = 0
    group: dist.ProcessGroup | None = None  # of these ranks; None: all that there are
    replicas: dist.ProcessGroup | None = None  # of ranks with other sequences and the same place in them

    def padding(self, tokens: int) -> int:
        """Tokens that are appended, so that every rank has as many."""
        return -tokens % self.ranks

    def own_part(self, values_1T: Tensor, padding: Tensor | None = None) -> Tensor:
        """``[1, P]``: this rank's part.

        Args:
            values_1T: of all tokens.
            padding: what is appended, one value for each padded token; None: zeros.
        """
        if self.ranks == 1:
            return values_1T
        missing = self.padding(values_1T.shape[1])
        if missing and padding is not None:
            values_1T = torch.cat((values_1T, padding[None]), dim=1)
        elif missing:
            values_1T = functional.pad(values_1T, (0, missing))
        return values_1T.chunk(self.ranks, dim=1)[self.rank].contiguous()

    def gathered(self, values_P: Tensor, tokens: int) -> Tensor:
        """``[T]``: what every rank computed of its part, on all of them, without the padding.

        The loss of all tokens is then computed on every rank. FSDP takes the mean of their gradients, so
        that of a part is multiplied by the number of ranks.
        """
        if self.ranks == 1:
            return values_P
        gathered: Tensor = _Gather.apply(values_P, self)  # type: ignore[no-untyped-call]
        return gathered[:tokens]

    def gather(self, values: Tensor, *, dim: int = 0) -> Tensor:
        """The parts of all ranks, one after the other; without gradients."""
        parts = [torch.empty_like(values) for _ in range(self.ranks)]
        dist.all_gather(parts, values, group=self.group)
        return torch.cat(parts, dim=dim)

    def whole_sequence(self, own_PAD: Tensor) -> Tensor:
        """``[T, A / S, D]``: all tokens with a part of the heads; heads are repeated where there are too few.

        verl repeats them no further than each rank needs: flash attention shares one among several queries.
        """
        repeats = max(1, self.ranks // own_PAD.shape[1])
        if repeats > 1:
            own_PAD = own_PAD.repeat_interleave(repeats, dim=1)
        exchanged: Tensor = _WholeSequence.apply(own_PAD, self)  # type: ignore[no-untyped-call]
        return exchanged

    def all_heads(self, whole_TAD: Tensor) -> Tensor:
        """``[P, A * S, D]``: this rank's tokens with all heads, of all tokens with a part of them."""
        exchanged: Tensor = _AllHeads.apply(whole_TAD, self)  # type: ignore[no-untyped-call]
        return exchanged

    def count(self, tokens: int, device: torch.device) -> None:
        """Add up the tokens of all replicas, as verl does before a pass to divide the loss by them.

        Every replica has as many here, so the sum is not needed; what its communicator holds is.
        """
        if self.ranks > 1:
            dist.all_reduce(torch.tensor(tokens, device=device), group=self.replicas)


def sharing(engine: Engine, device: torch.device) -> Sharing:
    """The place of this process; neighbours share their sequences."""
    ranks = engine.parallel.ulysses
    if ranks == 1:
        return Sharing()
    shape = dist.get_world_size() // ranks, ranks
    mesh = init_device_mesh(device.type, shape, mesh_dim_names=("dp", "sp"))
    return Sharing(
        ranks=ranks,
        rank=mesh["sp"].get_local_rank(),
        group=mesh["sp"].get_group(),
        replicas=mesh["dp"].get_group(),
    )


def _to_whole_sequence(own_PAD: Tensor, ranks: Sharing) -> Tensor:
    return torch.cat(_exchanged(torch.stack(own_PAD.chunk(ranks.ranks, dim=1)), ranks).unbind())


def _to_all_heads(whole_TAD: Tensor, ranks: Sharing) -> Tensor:
    tokens, heads, width = whole_TAD.shape
    by_rank = whole_TAD.contiguous().view(ranks.ranks, tokens // ranks.ranks, heads, width)
    return torch.cat(_exchanged(by_rank, ranks).unbind(), dim=1)


def _exchanged(sent: Tensor, ranks: Sharing) -> Tensor:
    """One part to each rank, and one from each."""
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent, group=ranks.group)
    return received


class _WholeSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own_PAD: Tensor, ranks: Sharing) -> Tensor:
        ctx.ranks = ranks
        return _to_whole_sequence(own_PAD, ranks)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _to_all_heads(gradients[0], ctx.ranks), None


class _AllHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, whole_TAD: Tensor, ranks: Sharing) -> Tensor:
        ctx.ranks = ranks
        return _to_all_heads(whole_TAD, ranks)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _to_whole_sequence(gradients[0], ctx.ranks), None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values_P: Tensor, ranks: Sharing) -> Tensor:
        ctx.ranks = ranks
        return ranks.gather(values_P)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        ranks: Sharing = ctx.ranks
        return (gradients[0] * ranks.ranks).chunk(ranks.ranks)[ranks.rank].contiguous(), None
