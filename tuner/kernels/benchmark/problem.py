"""What is measured: inputs of a shape, and what a head is asked to compute from them.

T: rows (tokens). V: vocabulary entries. H: hidden size. C: rows of a chunk.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

CHUNK = 2048  # rows whose logits exist at a time
CLIP_RATIO = 0.2
ENTROPY_COEFF = 0.01
KL_LOSS_COEF = 0.001
_LOG_RATIO = 0.1  # largest: no token is clipped, so that every row costs its full price


@dataclass(frozen=True, kw_only=True)
class ProblemShape:
    """Rows, hidden size, vocabulary."""

    tokens: int
    hidden: int
    vocabulary: int

    @classmethod
    def parse(cls, text: str) -> "ProblemShape":
        """Read a shape written as ``TxHxV``."""
        try:
            tokens, hidden, vocabulary = map(int, text.split("x"))
        except ValueError:
            raise ValueError(f"a shape is TxHxV, such as 4096x3584x152064, not {text!r}") from None
        if min(tokens, hidden, vocabulary) < 1:
            raise ValueError(f"every size of a shape must be at least 1, not {text!r}")
        return cls(tokens=tokens, hidden=hidden, vocabulary=vocabulary)

    def __str__(self) -> str:
        return f"{self.tokens}x{self.hidden}x{self.vocabulary}"

    @property
    def product_flop(self) -> int:
        """Floating-point operations of one matrix product between hidden states and weight."""
        return 2 * self.tokens * self.hidden * self.vocabulary


@dataclass(frozen=True, kw_only=True)
class PolicyInputs:
    """What the policy loss reads of each token beside the label."""

    old_log_probs_T: Tensor
    advantages_T: Tensor
    token_weights_T: Tensor
    ref_log_probs_T: Tensor


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Inputs in 16 bits, and upstream gradients of log-probabilities and entropy."""

    hidden_TH: Tensor
    weight_VH: Tensor
    labels_T: Tensor
    d_log_probs_T: Tensor
    d_entropy_T: Tensor
    policy: PolicyInputs | None = None

    @property
    def inputs(self) -> tuple[Tensor, Tensor]:
        """The tensors that get gradients."""
        return self.hidden_TH, self.weight_VH

    def detached(self) -> "Problem":
        """A copy for a pass without gradients: some heads compute them wherever an input asks for them."""
        return replace(self, hidden_TH=self.hidden_TH.detach(), weight_VH=self.weight_VH.detach())

    @property
    def shape(self) -> ProblemShape:
        """Rows, hidden size, vocabulary."""
        return ProblemShape(
            tokens=self.hidden_TH.shape[0], hidden=self.hidden_TH.shape[1], vocabulary=self.weight_VH.shape[0]
        )

    @property
    def unit(self) -> float:
        """Largest relative error of one rounding to the dtype of hidden states and weight."""
        return torch.finfo(self.hidden_TH.dtype).eps / 2

    def chunks(self) -> Iterator[slice]:
        """Rows in parts."""
        for start in range(0, self.hidden_TH.shape[0], CHUNK):
            yield slice(start, start + CHUNK)


def random_problem(
    shape: ProblemShape,
    *,
    zero_gradient: float = 0.0,
    device: str = "cuda",
    dtype: torch.dtype = torch.bfloat16,
) -> Problem:
    """Logits of standard deviation 1.

    Args:
        shape: of the inputs.
        zero_gradient: the share of the rows whose upstream gradients are zero.
        device: where they are.
        dtype: of hidden states and weight.
    """
    generator = torch.Generator(device).manual_seed(0)

    def normal(*sizes: int, dtype: torch.dtype = dtype) -> Tensor:
        return torch.randn(sizes, device=device, dtype=dtype, generator=generator)

    has_gradient = torch.rand(shape.tokens, device=device, generator=generator) >= zero_gradient
    return Problem(
        hidden_TH=normal(shape.tokens, shape.hidden).requires_grad_(),
        weight_VH=normal(shape.vocabulary, shape.hidden).mul_(shape.hidden**-0.5).requires_grad_(),
        labels_T=torch.randint(shape.vocabulary, (shape.tokens,), device=device, generator=generator),
        d_log_probs_T=normal(shape.tokens, dtype=torch.float32) * has_gradient,
        d_entropy_T=normal(shape.tokens, dtype=torch.float32) * has_gradient,
    )


def with_policy(problem: Problem) -> Problem:
    """A copy of the problem that a policy loss can read: two policies near its own, advantages around one.

    Advantages around zero would let the loss cancel, and its relative error say nothing.
    """
    device = problem.hidden_TH.device
    generator = torch.Generator(device).manual_seed(1)
    hidden_TH, weight_VH = (matrix.detach().float() for matrix in problem.inputs)
    log_probs_T = torch.cat(
        [
            (hidden_TH[part] @ weight_VH.T).log_softmax(1).gather(1, problem.labels_T[part, None]).squeeze(1)
            for part in problem.chunks()
        ]
    )

    def near() -> Tensor:
        change = torch.rand(log_probs_T.shape, device=device, generator=generator)
        return log_probs_T + _LOG_RATIO * (2 * change - 1)

    return replace(
        problem,
        policy=PolicyInputs(
            old_log_probs_T=near(),
            advantages_T=torch.randn(log_probs_T.shape, device=device, generator=generator) + 1,
            token_weights_T=torch.full_like(log_probs_T, 1 / log_probs_T.numel()),
            ref_log_probs_T=near(),
        ),
    )
