"""How many sequences and tokens verl hands to a worker, whatever form its batch has in a release."""

from typing import Any

from msgspec import Struct


class BatchShare(Struct, frozen=True, kw_only=True):
    """A rank's share of a batch; None where the batch does not say."""

    sequences: int | None = None
    tokens: int | None = None  # without padding
    response_tokens: int | None = None
    all_sequences: int | None = None  # of the batch of all ranks


def size_of(data: Any) -> BatchShare:
    """The size of a batch: verl's DataProto, or a TensorDict of padded or nested tensors.

    Sources: verl 0.5.0 ``protocol.py`` (``batch``, ``meta_info``), 0.9.1 ``workers/utils/padding.py``
    (``left_right_2_no_padding``: nested ``input_ids``, ``response_mask`` or ``loss_mask``),
    ``utils/tensordict_utils.py`` (``get``: what is no tensor lies under ``data``).
    """
    tensors, further = getattr(data, "batch", None), getattr(data, "meta_info", None)
    if tensors is None and further is None:
        tensors = further = data
    shape = getattr(tensors, "batch_size", None)
    everyone = getattr(_get(further, "global_token_num"), "data", _get(further, "global_token_num"))
    return BatchShare(
        sequences=int(shape[0]) if shape else None,
        tokens=_elements(_get(tensors, "input_ids"), mask=_get(tensors, "attention_mask")),
        response_tokens=_marked(_get(tensors, "response_mask"), _get(tensors, "loss_mask")),
        all_sequences=len(everyone) if isinstance(everyone, list | tuple) else None,
    )


def told_step(data: Any) -> int | None:
    """The step that a batch says it is of; None where it does not."""
    step = _get(getattr(data, "meta_info", None), "global_steps")
    return step if isinstance(step, int) and step >= 0 else None


def validates(data: Any) -> bool:
    """Whether the responses that are wanted are of a validation, which is no phase of a step."""
    return bool(_get(getattr(data, "meta_info", None), "validate"))


def without_adapter(data: Any) -> bool:
    """Whether log probabilities are wanted of the base model alone, as those of a reference are.

    Sources: verl 0.9.1 ``trainer/ppo/v1/trainer_base.py`` (``_compute_ref_log_prob``: ``no_lora_adapter``
    in the ``extra_info`` of a batch that the transfer queue keeps), ``trainer/ppo/ray_trainer.py`` (beside
    the tensors of a TensorDict), ``workers/engine_workers.py`` (``infer_batch``).
    """
    further = (getattr(data, "meta_info", None), getattr(data, "extra_info", None), data)
    told = [_get(mapping, "no_lora_adapter") for mapping in further]
    return any(getattr(one, "data", one) is True for one in told)


def _get(mapping: Any, name: str) -> Any:
    try:
        return mapping.get(name, None) if name in mapping.keys() else None  # noqa: SIM118 - as a TensorDict wants
    except (AttributeError, TypeError):
        return None


def _elements(tensor: Any, *, mask: Any) -> int | None:
    if tensor is not None and getattr(tensor, "is_nested", False):
        return int(tensor.values().numel())
    if mask is not None and not getattr(mask, "is_nested", False):
        return int(mask.sum())
    return None


def _marked(*masks: Any) -> int | None:
    for mask in masks:
        if mask is not None:
            return int((mask.values() if getattr(mask, "is_nested", False) else mask).sum())
    return None
