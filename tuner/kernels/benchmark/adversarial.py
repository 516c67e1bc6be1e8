"""Logits that break kernels: far from zero, far apart, peaked, all alike.

T: rows (tokens). V: vocabulary entries. H: hidden size.

The offset is the first component of every hidden state, one, times the first column of the weight: the rest
of a logit is added to it, and rounded as a number of its size is. float32 keeps a logit of 300 to 1.5e-5, and
the log-probability cannot be better than that; the entropy can, since it depends on differences. The
gradient of that component is the offset times a sum that is zero: of what 16 bits keep of the gradient of the
logits it shows the rounding only, and is left out where gradients are compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import floor, log, log2
from types import MappingProxyType

import torch
from torch import Tensor

from tuner.kernels import reference
from tuner.kernels.benchmark.exact import Results
from tuner.kernels.benchmark.problem import Problem, ProblemShape, random_problem

OFFSET, PEAK = 0, 1  # components of a hidden state
# Sums in another order have other errors, as large. Of a thousand normal ones the largest is 3.2 times the
# standard deviation, and hardly ever below 2.6: one above twice that is as rare as 2 in 10,000.
OTHER_ORDER = 2.0
_MANTISSA_BITS = 23  # of a float32


@dataclass(frozen=True, kw_only=True)
class AdversarialCase:
    """The logits of each row.

    Attributes:
        offset: of all of them, exact in 16 bits.
        deviation: around it.
        margin: by how much more than ln V the label's, the same in all rows, is above the offset.
    """

    offset: int = 0
    deviation: float = 0.0
    margin: int | None = None


CASES: Mapping[str, AdversarialCase] = MappingProxyType(
    {
        "ordinary": AdversarialCase(deviation=1),
        "near -150": AdversarialCase(offset=-150, deviation=1),
        "near +300": AdversarialCase(offset=300, deviation=1),
        "standard deviation 100": AdversarialCase(deviation=100),
        "peaked near +300": AdversarialCase(offset=300, deviation=1, margin=8),
        "one-hot": AdversarialCase(deviation=1, margin=1000),
        "all equal": AdversarialCase(offset=7),
        "all zero": AdversarialCase(),
    }
)


def adversarial_problem(
    case: str, shape: ProblemShape, *, device: str = "cuda", dtype: torch.dtype = torch.bfloat16
) -> Problem:
    """Inputs whose logits are those of a case; hidden states have three components at least.

    Raises:
        KeyError: a case that is none of ``CASES``.
    """
    wanted = CASES[case]
    problem = random_problem(shape, device=device, dtype=dtype)
    hidden_TH, weight_VH = (matrix.detach() for matrix in problem.inputs)
    hidden_TH *= wanted.deviation
    hidden_TH[:, OFFSET] = 1
    weight_VH[:, OFFSET] = wanted.offset
    labels_T = problem.labels_T
    if wanted.margin is not None:
        labels_T = labels_T[:1].expand_as(labels_T).clone()
        hidden_TH[:, PEAK] = round(log(shape.vocabulary)) + wanted.margin
        weight_VH[:, PEAK] = 0
        weight_VH[labels_T[0], PEAK:] = 0
        weight_VH[labels_T[0], PEAK] = 1
    return replace(
        problem,
        hidden_TH=hidden_TH.requires_grad_(),
        weight_VH=weight_VH.requires_grad_(),
        labels_T=labels_T,
    )


def _product(hidden_CH: Tensor, weight_VH: Tensor) -> Tensor:
    """Logits in float32 as the device multiplies the matrices in their dtype."""
    if hidden_CH.is_cuda and torch.version.hip is None and hidden_CH.dtype != torch.float32:
        return torch.mm(hidden_CH, weight_VH.T, out_dtype=torch.float32)
    return hidden_CH.float() @ weight_VH.float().T


def product_errors(problem: Problem, exact: Results) -> dict[str, float]:
    """Largest absolute errors of log-probability and entropy that are those of the logits.

    The statistics are float64's, so that no head which multiplies with the same units can be better but by
    luck.
    """
    hidden_TH, weight_VH = (matrix.detach() for matrix in problem.inputs)
    chunks: list[tuple[Tensor, Tensor]] = []
    for part in problem.chunks():
        labels_C = problem.labels_T[part]
        ones_C = torch.ones_like(labels_C, dtype=torch.float64)
        of_rows = reference.statistics(_product(hidden_TH[part], weight_VH).double(), labels_C, ones_C)
        chunks.append((of_rows.log_probs, of_rows.entropy))
    log_probs, entropy = (torch.cat(parts) for parts in zip(*chunks, strict=True))
    empty = log_probs.new_empty(0)
    return Results(log_probs=log_probs, entropy=entropy, d_hidden=empty, d_weight=empty).worst(exact)


def error_limits(of_product: Mapping[str, float], vocabulary: int) -> dict[str, float]:
    """The largest absolute errors of a head whose logits are float32.

    Args:
        of_product: those of :func:`product_errors`.
        vocabulary: entries; two roundings of a number as large as its logarithm, the largest entropy, come on
            top.
    """
    rounding = 2.0 ** (floor(log2(max(1.0, log(vocabulary)))) - _MANTISSA_BITS)
    return {name: OTHER_ORDER * error + 2 * rounding for name, error in of_product.items()}
