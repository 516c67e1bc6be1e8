"""A cross entropy that keeps what flash-attn's keeps: the logits and one log-sum-exp per token."""

import importlib.util
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

if importlib.util.find_spec("triton"):
    import triton
    import triton.language as tl

    @triton.jit
    def _loss_kernel(logits, labels, losses, log_sums, stride, columns, BLOCK: tl.constexpr):  # noqa: N803
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

    @triton.jit
    def _gradient_kernel(
        gradients,
        logits,
        labels,
        log_sums,
        upstream,
        upstream_stride,
        stride,
        columns,
        BLOCK: tl.constexpr,  # noqa: N803
    ):
        row = tl.program_id(0).to(tl.int64)
        offsets = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < columns
        values = tl.load(logits + row * stride + offsets, mask=inside, other=-float("inf")).to(tl.float32)
        probabilities = tl.exp(values - tl.load(log_sums + row))
        probabilities = tl.where(offsets == tl.load(labels + row), probabilities - 1.0, probabilities)
        scaled = probabilities * tl.load(upstream + row * upstream_stride)
        tl.store(gradients + row * stride + offsets, scaled, mask=inside)


class CrossEntropy(torch.autograd.Function):
    """Cross entropy per token that keeps the logits and, if asked, writes their gradient over them."""

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, labels: torch.Tensor, inplace_backward: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows, columns = logits.shape
        losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
        log_sums = torch.empty_like(losses)
        if logits.is_cuda:
            _loss_kernel[(rows,)](logits, labels, losses, log_sums, logits.stride(0), columns, BLOCK=4096)
        else:
            log_sums.copy_(logits.float().logsumexp(-1))
            losses.copy_(log_sums - logits.gather(-1, labels[:, None]).squeeze(-1))
        ctx.save_for_backward(logits, labels, log_sums)
        ctx.inplace_backward = inplace_backward
        z_losses = torch.empty_like(losses)
        ctx.mark_non_differentiable(z_losses)
        return losses, z_losses

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor, _: Any) -> tuple[torch.Tensor, None, None]:
        logits, labels, log_sums = ctx.saved_tensors
        gradients = logits if ctx.inplace_backward else torch.empty_like(logits)
        rows, columns = logits.shape
        if logits.is_cuda:
            grid = (rows, triton.cdiv(columns, 4096))
            _gradient_kernel[grid](
                gradients,
                logits,
                labels,
                log_sums,
                upstream,
                upstream.stride(0),
                logits.stride(0),
                columns,
                BLOCK=4096,
            )
        else:
            probabilities = (logits.float() - log_sums[:, None]).exp()
            probabilities -= F.one_hot(labels, columns)
            gradients.copy_(probabilities * upstream[:, None])
        return gradients, None, None


def cross_entropy_loss(
    logits: torch.Tensor, labels: torch.Tensor, inplace_backward: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """``flash_attn.ops.triton.cross_entropy.cross_entropy_loss``, as far as verl uses it."""
    losses, z_losses = CrossEntropy.apply(logits, labels, inplace_backward)
    return losses, z_losses
