"""What the engines do to an optimizer and its gradients: clip, make its states, move them."""

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

MAX_NORM = 1.0  # of the gradients, over all ranks


def clip(parameters: list[nn.Parameter]) -> Tensor:
    """Scale gradients down to the largest norm that is allowed; returns their norm, of all ranks."""
    norm = get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
    clip_grads_with_norm_(parameters, MAX_NORM, norm)
    whole: Tensor = norm.full_tensor() if isinstance(norm, DTensor) else norm
    return whole


def make_states(optimizer: torch.optim.Optimizer) -> None:
    """AdamW's states as after its first step, without the memory that this takes; frozen weights get none."""
    for group in optimizer.param_groups:
        for parameter in filter(lambda parameter: parameter.requires_grad, group["params"]):
            optimizer.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32),
                "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
                "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
            }


@torch.no_grad()
def move_states(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """Move AdamW's states to a device.

    Source: verl 0.9.1 ``utils/fsdp_utils.py`` (``offload_fsdp_optimizer``).
    """
    for state in optimizer.state.values():
        for key, value in state.items():
            if isinstance(value, Tensor) and value.device.type != device.type:
                state[key] = value.to(device, non_blocking=True)
