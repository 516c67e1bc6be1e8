"""Losses of the size and kind that verl's are: a few numbers per token of the response.

B: sequences. R: tokens of a response. T: tokens of the micro-batch.
"""

import torch
from torch import Tensor

from tuner.validate.training.worker.batches import MicroBatch

_CLIP = 0.2
_ENTROPY_COEFFICIENT = 0.001


def of_responses(values_T: Tensor, batch: MicroBatch) -> Tensor:
    """``[B, R]``: of the tokens that predict the response, each one position before its own."""
    count, response = batch.responses.shape
    return values_T.view(count, -1)[:, -response - 1 : -1]


def policy_loss(log_probs_T: Tensor, entropy_T: Tensor | None, batch: MicroBatch) -> Tensor:
    """The clipped objective, less a small share of the entropy; a scalar."""
    difference_BR = of_responses(log_probs_T, batch) - batch.old_log_probs
    ratio_BR = difference_BR.clamp(-20.0, 20.0).exp()
    losses_BR = torch.maximum(
        -batch.advantages * ratio_BR, -batch.advantages * ratio_BR.clamp(1 - _CLIP, 1 + _CLIP)
    )
    loss = _mean(losses_BR, batch.response_mask)
    if entropy_T is not None:
        entropy = _mean(of_responses(entropy_T, batch), batch.response_mask)
        loss = loss - _ENTROPY_COEFFICIENT * entropy
    return loss


def value_loss(values_T: Tensor, batch: MicroBatch) -> Tensor:
    """The clipped squared error of a critic; a scalar."""
    values_BR, before_BR, returns_BR = of_responses(values_T, batch), batch.old_log_probs, batch.advantages
    clipped_BR = values_BR.clamp(before_BR - _CLIP, before_BR + _CLIP)
    errors_BR = torch.maximum((values_BR - returns_BR) ** 2, (clipped_BR - returns_BR) ** 2)
    return 0.5 * _mean(errors_BR, batch.response_mask)


def _mean(values_BR: Tensor, mask_BR: Tensor) -> Tensor:
    return (values_BR * mask_BR).sum() / mask_BR.sum()
