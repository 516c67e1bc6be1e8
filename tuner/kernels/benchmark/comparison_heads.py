"""verl's ways in torch, as :mod:`tuner.kernels.comparison` writes them out, as heads to be measured.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

import torch

from tuner.kernels.benchmark.heads import Head, Rounding
from tuner.kernels.benchmark.problem import Problem
from tuner.kernels.benchmark.report import HeadSource, Task
from tuner.kernels.comparison import HEADS, IMPLEMENTATIONS
from tuner.kernels.comparison.fused import CHUNK_TOKENS
from tuner.workload import HeadKind, OutputHead, Scaling

#: Those that a run measures if none is named: the others are near one of them.
DEFAULT_COMPARISON = tuple(
    name
    for name, head in HEADS.items()
    if head.scaling is Scaling.NONE and not (head.compiled and head.chunk_tokens)
)
# The gradients of the logits that autograd adds up in 16 bits: of the log-probability, and of the entropy's
# log-sum, softmax and product.
_USES_OF_LOGITS = 4


def _bytes_per_logit(head: OutputHead) -> int:
    """Rounded up from peaks measured on an H200: 28.0, 14.5, 12.5 and 6.0."""
    if head.kind is HeadKind.FUSED_TORCH:
        return 0
    if head.compiled:
        return 7
    return 15 if head.chunk_tokens else 28


def _rounding(head: OutputHead) -> Rounding:
    if head.kind is HeadKind.FUSED_TORCH:
        chunks = {"d_weight": lambda shape: -(-shape.tokens // CHUNK_TOKENS)}
        return Rounding(logits=True, outputs=("entropy",), sums=chunks)
    uses = {name: lambda shape: _USES_OF_LOGITS for name in ("d_hidden", "d_weight")}
    return Rounding(logits=True, sums=uses)


def _head(name: str) -> Head:
    implementation, head = IMPLEMENTATIONS[name], HEADS[name]

    def run(problem: Problem) -> tuple[torch.Tensor, ...]:
        return implementation(*problem.inputs, problem.labels_T)

    return Head(
        name=name,
        family=HeadSource.COMPARISON,
        task=Task.EACH,
        run=run,
        products=4 if head.kind is HeadKind.FUSED_TORCH else 3,
        rounding=_rounding(head),
        bytes_per_logit=_bytes_per_logit(head),
        reentrant=head.checkpointed,
    )


COMPARISON = [_head(name) for name in IMPLEMENTATIONS]
