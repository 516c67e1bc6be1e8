"""Weights of experts on their way out of FSDP1, as verl 0.9.1 hands them to an engine beside it."""

from collections.abc import Iterable, Iterator

import torch

_BUCKET = 2 << 30  # bytes, verl's default


def cut_into_experts(weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[torch.Tensor]:
    """Each weight, and the matrices of single experts in the place of those that all experts have as one.

    The two halves live until there are others, while the next tensor is gathered.

    Source: verl 0.9.1 ``workers/engine/fsdp/utils.py`` (``unfuse_moe_params``).
    """
    for name, tensor in weights:
        if name.endswith(".mlp.experts.gate_up_proj"):
            gate, up = tensor.chunk(2, dim=1)
            for expert in range(tensor.size(0)):
                yield gate[expert].contiguous()
                yield up[expert].contiguous()
        elif name.endswith(".mlp.experts.down_proj"):
            for expert in range(tensor.size(0)):
                yield tensor[expert].contiguous()
        else:
            yield tensor


def fill_buckets(weights: Iterable[torch.Tensor], device: torch.device, size: int = _BUCKET) -> int:
    """Copies every weight into one buffer, from its begin when it is full; how often it was filled.

    Source: verl 0.9.1 ``workers/rollout/vllm_rollout/bucketed_weight_transfer.py`` (``async_send_weights``).
    """
    buffer = torch.empty(size, dtype=torch.uint8, device=device)
    filled, end = 0, size
    for weight in weights:
        values = weight.reshape(-1).view(torch.uint8)
        if end + values.numel() > size:
            filled, end = filled + 1, 0
        buffer[end : end + values.numel()].copy_(values)
        end += values.numel()
    return filled
