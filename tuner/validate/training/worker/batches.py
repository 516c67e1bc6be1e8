"""A micro-batch as verl's workers receive it, and losses of the size and kind that verl's are.

B: sequences. L: tokens of a sequence. R: tokens of a response. T: tokens of the micro-batch.

B: sequences. R: tokens of a response. T: tokens of the micro-batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

from tuner.validate.training.settings import PassSettings, PromptImages
from tuner.validate.training.worker import images as seen

_CLIP = 0.2
_ENTROPY_COEFFICIENT = 0.001


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """The fields that verl sends to the device with a micro-batch."""

    input_ids: Tensor  # [1, T], int64
    position_ids: Tensor  # [1, T], of Qwen-VL [4, 1, T], int64
    prompts: Tensor  # [B, L - R], int64
    responses: Tensor  # [B, R], int64
    response_mask: Tensor  # [B, R]
    loss_mask: Tensor  # [B, R]
    old_log_probs: Tensor  # [B, R]; of a critic: the values before the update
    advantages: Tensor  # [B, R]; of a critic: the returns
    images: dict[str, Tensor] = field(default_factory=dict)  # by the names of the model's inputs

    @property
    def lengths(self) -> list[int]:
        """Tokens of every sequence."""
        count = len(self.prompts)
        return [self.input_ids.shape[1] // count] * count

    def to(self, device: torch.device) -> "MicroBatch":
        """On the device; images stay where they are, FSDP moves them."""
        tensors = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "images"}
        return replace(self, **{name: tensor.to(device) for name, tensor in tensors.items()})


def random_micro_batches(settings: PassSettings, config: Any) -> list[MicroBatch]:
    """Micro-batches of a pass, on the host, whole; all ranks have the same.

    Args:
        settings: of the pass.
        config: the model's, of transformers.
    """
    length, ranks = settings.sequence_length, settings.engine.parallel.ulysses
    sizes = [(settings.sequences, length)] * settings.micro_batches
    if settings.first_tokens is not None:
        first = settings.first_tokens * ranks
        shorter = min(length, first)
        sizes[:-1] = [(first // shorter, shorter)] * (len(sizes) - 1)
    return [
        _random(count, length, config, settings.images, seed) for seed, (count, length) in enumerate(sizes)
    ]


def _random(count: int, length: int, config: Any, images: PromptImages | None, seed: int) -> MicroBatch:
    response = length - length // 2
    generator = torch.Generator().manual_seed(seed)
    vocabulary = config.get_text_config().vocab_size
    tokens_BL = torch.randint(vocabulary, (count, length), generator=generator)
    seen.place_tokens(tokens_BL, images, config)
    return MicroBatch(
        input_ids=tokens_BL.reshape(1, -1),
        position_ids=seen.positions(length, count, config),
        prompts=tokens_BL[:, : length - response].contiguous(),
        responses=tokens_BL[:, length - response :].contiguous(),
        response_mask=torch.ones(count, response),
        loss_mask=torch.ones(count, response),
        old_log_probs=torch.full((count, response), -12.0),
        advantages=torch.randn(count, response, generator=generator),
        images=seen.inputs(images, config, count, length, generator),
    )


def rows_by_name(micro_batches: Sequence[MicroBatch], *, critic: bool) -> dict[str, list[Tensor]]:
    """Tensors of every sequence by the names that verl's engine reads."""
    outputs: dict[str, list[Tensor]] = {}

    def add(name: str, values: Tensor) -> None:
        outputs.setdefault(name, []).extend(values.unbind())

    for micro_batch in micro_batches:
        count = len(micro_batch.prompts)
        add("input_ids", micro_batch.input_ids.view(count, -1))
        add("position_ids", micro_batch.position_ids.view(count, -1))
        add("prompts", micro_batch.prompts)
        add("responses", micro_batch.responses)
        add("response_mask", micro_batch.response_mask)
        add("loss_mask", micro_batch.loss_mask)
        add("values" if critic else "old_log_probs", micro_batch.old_log_probs)
        add("returns" if critic else "advantages", micro_batch.advantages)
    return outputs


def nested(rows: list[Tensor]) -> Tensor:
    """Rows of different lengths as one jagged tensor, as verl hands batches over."""
    return torch.nested.as_nested_tensor([row.contiguous() for row in rows], layout=torch.jagged)


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
