"""From a model's output to log-probabilities and entropy, in the order in which verl's engine computes them.

The order, and what a local variable still holds, decide what exists at once.

T: rows (tokens). V: vocabulary entries.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

from torch import Tensor, nn

from tuner.kernels.comparison.from_logits import entropy_function, row_by_row
from tuner.kernels.comparison.fused import fused_in_torch
from tuner.validate.head.worker.cross_entropy import cross_entropy_loss
from tuner.workload import HeadKind, OutputHead, Scaling


def from_logits(
    returned: Any, labels_T: Tensor, temperature_T: Tensor, head: OutputHead, *, entropy: bool
) -> tuple[Tensor, Tensor | None]:
    """Log-probabilities, and entropy where it is asked for; ``returned`` is what the model returned.

    Source: verl 0.9.1 ``workers/engine/fsdp/transformer_impl.py`` (``prepare_model_outputs``); verl 0.8.0,
    the same file, divides in place and takes the log-probabilities first.
    """
    logits_TV = returned.logits.squeeze(0)
    if head.scaling is Scaling.IN_PLACE:
        logits_TV.div_(temperature_T.clamp(min=1e-8)[:, None].to(logits_TV.dtype))
        log_probs_T = _log_probs(logits_TV, labels_T, head, inplace_backward=not entropy)
        return log_probs_T, _entropy(logits_TV, head) if entropy else None
    if head.scaling is Scaling.COPY:
        logits_TV = logits_TV / temperature_T.clamp(min=1e-8)[:, None].to(logits_TV.dtype)
    entropy_T = _entropy(logits_TV, head) if entropy else None
    return _log_probs(logits_TV, labels_T, head, inplace_backward=not entropy), entropy_T


def _entropy(logits_TV: Tensor, head: OutputHead) -> Tensor:
    computed = entropy_function(
        compiled=head.compiled, chunk_tokens=head.chunk_tokens, checkpointed=head.checkpointed
    )
    return computed(logits_TV)


def _log_probs(logits_TV: Tensor, labels_T: Tensor, head: OutputHead, *, inplace_backward: bool) -> Tensor:
    if not head.fused_cross_entropy:
        return row_by_row(logits_TV, labels_T)
    return -cross_entropy_loss(logits_TV, labels_T, inplace_backward=inplace_backward)[0]


@contextmanager
def fused(model: nn.Module, head: OutputHead) -> Iterator[None]:
    """The model's own forward pass computes both, as where verl replaces it; otherwise nothing changes.

    Source: verl 0.9.1 ``models/transformers/dense_common.py`` (``forward_with_torch_backend``).
    """
    if head.kind is not HeadKind.FUSED_TORCH:
        yield
        return
    inner: Any = getattr(model, "_fsdp_wrapped_module", model)
    inner.forward = MethodType(_fused_forward, inner)
    try:
        yield
    finally:
        del inner.forward


def _fused_forward(
    self: Any, *, shift_labels: Tensor, temperature: float, **inputs: Any
) -> tuple[Tensor, Tensor]:
    hidden_1TH = getattr(self, self.base_model_prefix)(**inputs)[0]
    return fused_in_torch(
        hidden_1TH.squeeze(0), self.get_output_embeddings().weight, shift_labels, temperature
    )
