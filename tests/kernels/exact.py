"""What the heads should compute, in float64 and by autograd, from logits.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
IGNORED = -100


@dataclass(frozen=True, kw_only=True)
class Case:
    """Inputs of a head, and upstream gradients."""

    hidden: Tensor
    weight: Tensor
    labels: Tensor
    temperature: Tensor
    d_log_probs: Tensor
    d_entropy: Tensor


def random_case(tokens: int, hidden: int, vocabulary: int, dtype: torch.dtype, *, scale: float = 2.0) -> Case:
    """Every third label ignored, every fifth row without a gradient; logits as wide as ``scale``."""
    generator = torch.Generator(DEVICE).manual_seed(tokens + hidden + vocabulary)

    def normal(*sizes: int) -> Tensor:
        return torch.randn(sizes, device=DEVICE, generator=generator)

    labels = torch.randint(vocabulary, (tokens,), device=DEVICE, generator=generator)
    labels[1::3] = IGNORED
    d_log_probs, d_entropy = normal(tokens), normal(tokens)
    d_log_probs[2::5] = d_entropy[2::5] = 0
    return Case(
        hidden=normal(tokens, hidden).to(dtype).requires_grad_(),
        weight=(normal(vocabulary, hidden) * scale * hidden**-0.5).to(dtype).requires_grad_(),
        labels=labels,
        temperature=torch.rand(tokens, device=DEVICE, generator=generator) + 0.5,
        d_log_probs=d_log_probs,
        d_entropy=d_entropy,
    )


def exact_outputs(logits: Tensor, labels: Tensor, temperature: Tensor | float) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropy of float64 logits; zero for ignored labels."""
    scaled = logits / (temperature.double()[:, None] if isinstance(temperature, Tensor) else temperature)
    log_p = scaled.log_softmax(1)
    active = labels != IGNORED
    log_prob = log_p.gather(1, labels.long().where(active, 0)[:, None]).squeeze(1)
    entropy = -(log_p.exp() * log_p.clamp(min=-1e300)).sum(1)
    return log_prob.where(active, 0.0), entropy.where(active, 0.0)


def exact_d_logits(logits: Tensor, case: Case) -> Tensor:
    """Gradient of the logits in float64."""
    leaf = logits.detach().double().requires_grad_()
    outputs = exact_outputs(leaf, case.labels, case.temperature)
    upstream = (case.d_log_probs.double(), case.d_entropy.double())
    return torch.autograd.grad(outputs, leaf, upstream)[0]


def error(value: Tensor, exact: Tensor) -> float:
    """Norm of the difference over the norm; the difference itself where the norm is zero."""
    difference, norm = (value.double() - exact).norm(), exact.norm()
    return float(difference / norm if norm > 0 else difference)
