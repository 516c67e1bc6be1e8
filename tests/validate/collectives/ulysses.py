"""Called in processes of their own: attention by Ulysses beside attention of the whole sequence."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from tuner.validate.training.worker.ulysses import Sharing


def attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Causal, of ``[tokens, heads, width]``."""
    turned = (states.transpose(0, 1)[None] for states in (queries, keys, values))
    return F.scaled_dot_product_attention(*turned, is_causal=True)[0].transpose(0, 1)


def largest_difference(tokens: int, heads: int, width: int, *, device: str) -> float:
    """Between this rank's tokens by either way."""
    generator = torch.Generator(device).manual_seed(7)
    world, rank = dist.get_world_size(), dist.get_rank()
    sharing = Sharing(ranks=world, rank=rank)
    shape = (world * tokens, heads, width)
    states = [torch.randn(shape, generator=generator, device=device) for _ in range(3)]
    own = slice(rank * tokens, (rank + 1) * tokens)
    shared = attention(*(sharing.whole_sequence(one[own].contiguous()) for one in states))
    difference = (sharing.all_heads(shared) - attention(*states)[own]).abs().max()
    dist.all_reduce(difference, dist.ReduceOp.MAX)
    return float(difference)
