"""What is measured: inputs of a shape, and what every head should make of them.

T: rows (tokens). V: vocabulary entries. H: hidden size. C: rows of a chunk.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

CHUNK = 2048  # rows whose float64 logits exist at a time


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Rows, hidden size, vocabulary."""

    tokens: int
    hidden: int
    vocabulary: int

    @classmethod
    def parse(cls, text: str) -> "Shape":
        """From ``TxHxV``."""
        tokens, hidden, vocabulary = map(int, text.split("x"))
        return cls(tokens=tokens, hidden=hidden, vocabulary=vocabulary)

    @property
    def product_flop(self) -> int:
        """Of one matrix product."""
        return 2 * self.tokens * self.hidden * self.vocabulary


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Random bfloat16 inputs, and upstream gradients of both results."""

    hidden_TH: Tensor
    weight_VH: Tensor
    labels_T: Tensor
    d_log_probs_T: Tensor
    d_entropy_T: Tensor


@dataclass(frozen=True, kw_only=True)
class Results:
    """What a head computes."""

    log_probs: Tensor
    entropy: Tensor
    d_hidden: Tensor
    d_weight: Tensor

    def errors(self, exact: "Results") -> dict[str, float]:
        """Norm of the difference over the norm, of each."""
        return {
            name: float((getattr(self, name).double() - value).norm() / value.norm())
            for name, value in vars(exact).items()
        }


def random_problem(shape: Shape, *, zero_gradient: float = 0.0, device: str = "cuda") -> Problem:
    """Logits of standard deviation 1.

    Args:
        shape: of the inputs.
        zero_gradient: the share of the rows whose upstream gradients are zero.
        device: where they are.
    """
    generator = torch.Generator(device).manual_seed(0)

    def normal(*sizes: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        return torch.randn(sizes, device=device, dtype=dtype, generator=generator)

    kept = torch.rand(shape.tokens, device=device, generator=generator) >= zero_gradient
    return Problem(
        hidden_TH=normal(shape.tokens, shape.hidden).requires_grad_(),
        weight_VH=normal(shape.vocabulary, shape.hidden).mul_(shape.hidden**-0.5).requires_grad_(),
        labels_T=torch.randint(shape.vocabulary, (shape.tokens,), device=device, generator=generator),
        d_log_probs_T=normal(shape.tokens, dtype=torch.float32) * kept,
        d_entropy_T=normal(shape.tokens, dtype=torch.float32) * kept,
    )


def exact_results(problem: Problem) -> Results:
    """All of them in float64, a chunk of rows at a time."""
    hidden_TH, weight_VH = problem.hidden_TH.detach(), problem.weight_VH.detach().double()
    d_weight_VH = torch.zeros_like(weight_VH)
    chunks: list[tuple[Tensor, Tensor, Tensor]] = []
    for start in range(0, hidden_TH.shape[0], CHUNK):
        part = slice(start, start + CHUNK)
        hidden_CH, label_C1 = hidden_TH[part].double(), problem.labels_T[part, None]
        log_p_CV = (hidden_CH @ weight_VH.T).log_softmax(1)
        p_CV = log_p_CV.exp()
        entropy_C1 = -(p_CV * log_p_CV).sum(1, keepdim=True)
        d_log_prob_C1 = problem.d_log_probs_T[part, None].double()
        of_entropy_C1 = problem.d_entropy_T[part, None].double()
        d_logits_CV = -p_CV * (d_log_prob_C1 + of_entropy_C1 * (log_p_CV + entropy_C1))
        d_logits_CV.scatter_add_(1, label_C1, d_log_prob_C1)
        d_weight_VH += d_logits_CV.T @ hidden_CH
        chunks.append((log_p_CV.gather(1, label_C1), entropy_C1, d_logits_CV @ weight_VH))
    log_probs, entropy, d_hidden = (torch.cat(parts) for parts in zip(*chunks, strict=True))
    return Results(
        log_probs=log_probs.squeeze(1), entropy=entropy.squeeze(1), d_hidden=d_hidden, d_weight=d_weight_VH
    )


def rounded_results(problem: Problem) -> Results:
    """Those of a head whose logits torch makes in bfloat16, as a language model's are, by autograd.

    A chunk of rows at a time; the gradient of the weight is added in float32 and rounded once.
    """
    hidden_TH, weight_VH = problem.hidden_TH.detach(), problem.weight_VH.detach()
    d_weight_VH = torch.zeros_like(weight_VH, dtype=torch.float32)
    chunks: list[tuple[Tensor, Tensor, Tensor]] = []
    for start in range(0, hidden_TH.shape[0], CHUNK):
        part = slice(start, start + CHUNK)
        logits_CV = (hidden_TH[part] @ weight_VH.T).requires_grad_()
        log_p_CV = logits_CV.float().log_softmax(1)
        log_prob_C = log_p_CV.gather(1, problem.labels_T[part, None]).squeeze(1)
        entropy_C = -(log_p_CV.exp() * log_p_CV).sum(1)
        upstream = (problem.d_log_probs_T[part], problem.d_entropy_T[part])
        (d_logits_CV,) = torch.autograd.grad((log_prob_C, entropy_C), logits_CV, upstream)
        d_weight_VH += d_logits_CV.T.float() @ hidden_TH[part].float()
        chunks.append((log_prob_C.detach(), entropy_C.detach(), d_logits_CV @ weight_VH))
    log_probs, entropy, d_hidden = (torch.cat(parts) for parts in zip(*chunks, strict=True))
    return Results(
        log_probs=log_probs, entropy=entropy, d_hidden=d_hidden, d_weight=d_weight_VH.to(weight_VH.dtype)
    )
