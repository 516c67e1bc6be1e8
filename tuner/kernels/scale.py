"""Multiply a tensor by a number that only the device knows, at no cost where it is one."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 4096
_PROGRAMS = 1024  # several for each processor of any GPU


@triton.jit(do_not_specialize=["N"])
def _scale(values, factor, N, BLOCK: tl.constexpr):
    by = tl.load(factor)
    if by != 1.0:
        for block in tl.range(tl.program_id(0).to(tl.int64), tl.cdiv(N, BLOCK), tl.num_programs(0)):
            place = block * BLOCK + tl.arange(0, BLOCK)
            inside = place < N
            x = tl.load(values + place, mask=inside, other=0.0)
            tl.store(values + place, (x.to(tl.float32) * by).to(values.dtype.element_ty), mask=inside)


def scale(values: Tensor, factor: Tensor) -> None:
    """Multiply ``values`` in place; neither reads nor writes them if the factor is one.

    Args:
        values: contiguous.
        factor: one float32 number on the same device.
    """
    blocks = triton.cdiv(values.numel(), _BLOCK)
    with torch.cuda.device_of(values):
        _scale[(min(blocks, _PROGRAMS),)](values, factor, values.numel(), BLOCK=_BLOCK, num_warps=8)
