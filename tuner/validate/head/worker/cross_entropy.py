"""A cross entropy that allocates what flash-attn's does: it keeps the logits and one log-sum-exp per token.

flash-attn is what verl takes its log-probabilities from, and need not be installed here.

T: rows (tokens). V: vocabulary entries.
"""

import importlib.util
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_BLOCK = 4096  # vocabulary entries that a program reads at once

if importlib.util.find_spec("triton"):
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def _loss_kernel(logits, labels, losses, log_sums, stride, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        row = tl.program_id(0).to(tl.int64)
        largest = tl.full((), -float("inf"), tl.float32)
        total = tl.zeros((), tl.float32)
        for start in range(0, columns, BLOCK):
            offsets = start + tl.arange(0, BLOCK)
            values = tl.load(logits + row * stride + offsets, mask=offsets < columns, other=-float("inf"))
            values = values.to(tl.float32)
            new = tl.maximum(largest, tl.max(values, axis=0))
            total = total * tl.exp(largest - new) + tl.sum(tl.exp(values - new), axis=0)
            largest = new
        log_sum = largest + tl.log(total)
        label = tl.load(logits + row * stride + tl.load(labels + row)).to(tl.float32)
        tl.store(log_sums + row, log_sum)
        tl.store(losses + row, log_sum - label)

    @triton.jit  # type: ignore[untyped-decorator]
    def _gradient_kernel(  # type: ignore[no-untyped-def]
        gradients,
        logits,
        labels,
        log_sums,
        upstream,
        upstream_stride,
        stride,
        columns,
        BLOCK: tl.constexpr,
    ):
        row = tl.program_id(0).to(tl.int64)
        offsets = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < columns
        values = tl.load(logits + row * stride + offsets, mask=inside, other=-float("inf")).to(tl.float32)
        probabilities = tl.exp(values - tl.load(log_sums + row))
        probabilities = tl.where(offsets == tl.load(labels + row), probabilities - 1.0, probabilities)
        scaled = probabilities * tl.load(upstream + row * upstream_stride)
        tl.store(gradients + row * stride + offsets, scaled, mask=inside)


def _losses(logits_TV: Tensor, labels_T: Tensor) -> tuple[Tensor, Tensor]:
    """Cross entropy and log-sum-exp of each row, float32."""
    losses_T = torch.empty(len(logits_TV), dtype=torch.float32, device=logits_TV.device)
    log_sums_T = torch.empty_like(losses_T)
    rows, columns = logits_TV.shape
    if logits_TV.is_cuda:
        _loss_kernel[(rows,)](
            logits_TV, labels_T, losses_T, log_sums_T, logits_TV.stride(0), columns, BLOCK=_BLOCK
        )
    else:
        log_sums_T.copy_(logits_TV.float().logsumexp(-1))
        losses_T.copy_(log_sums_T - logits_TV.gather(-1, labels_T[:, None]).squeeze(-1))
    return losses_T, log_sums_T


def _write_gradient(
    gradient_TV: Tensor, logits_TV: Tensor, labels_T: Tensor, log_sums_T: Tensor, upstream_T: Tensor
) -> None:
    """The gradient of the logits, which may be written over them."""
    rows, columns = logits_TV.shape
    if not logits_TV.is_cuda:
        p_TV = (logits_TV.float() - log_sums_T[:, None]).exp()
        p_TV -= functional.one_hot(labels_T, columns)
        gradient_TV.copy_(p_TV * upstream_T[:, None])
        return
    grid = (rows, triton.cdiv(columns, _BLOCK))
    _gradient_kernel[grid](
        gradient_TV,
        logits_TV,
        labels_T,
        log_sums_T,
        upstream_T,
        upstream_T.stride(0),
        logits_TV.stride(0),
        columns,
        BLOCK=_BLOCK,
    )


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits_TV: Tensor, labels_T: Tensor, inplace_backward: bool
    ) -> tuple[Tensor, Tensor]:
        losses_T, log_sums_T = _losses(logits_TV, labels_T)
        ctx.save_for_backward(logits_TV, labels_T, log_sums_T)
        ctx.inplace_backward = inplace_backward
        z_losses_T = torch.empty_like(losses_T)
        ctx.mark_non_differentiable(z_losses_T)
        return losses_T, z_losses_T

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        logits_TV, labels_T, log_sums_T = ctx.saved_tensors
        gradient_TV = logits_TV if ctx.inplace_backward else torch.empty_like(logits_TV)
        _write_gradient(gradient_TV, logits_TV, labels_T, log_sums_T, upstream[0])
        return gradient_TV, None, None


def cross_entropy_loss(
    logits: Tensor, labels: Tensor, inplace_backward: bool = False
) -> tuple[Tensor, Tensor]:
    """As ``flash_attn.ops.triton.cross_entropy.cross_entropy_loss``, as far as verl uses it.

    Args:
        logits: ``[T, V]``, rows contiguous.
        labels: ``[T]``, int64, in ``[0, V)``.
        inplace_backward: write the gradient over the logits.

    Returns:
        Losses, float32 ``[T]``, and the place of the z-losses, which nothing fills.
    """
    losses, z_losses = _CrossEntropy.apply(logits, labels, inplace_backward)  # type: ignore[no-untyped-call]
    return losses, z_losses
