"""Modules in the shape of verl's: what its workers call, with nothing behind it that is not needed."""

DENSE_COMMON = """
from dataclasses import dataclass

import torch
from transformers.modeling_outputs import CausalLMOutputWithPast


@dataclass
class CausalLMOutputForPPO(CausalLMOutputWithPast):
    log_probs: torch.FloatTensor | None = None
    entropy: torch.FloatTensor | None = None


def forward_with_torch_backend(self, input_ids, **kwargs):
    raise AssertionError("this is verl's own head")
"""

MONKEY_PATCH = """
def patch_forward_with_backends(model, use_fused_kernels=False, fused_kernels_backend=None):
    if not use_fused_kernels or fused_kernels_backend not in ["triton", "torch"]:
        return
    from verl.models.transformers.dense_common import forward_with_torch_backend

    model.__class__.forward = forward_with_torch_backend


def apply_monkey_patch(
    model, ulysses_sp_size=1, use_remove_padding=True, use_fused_kernels=False, fused_kernels_backend=None
):
    if model.config.model_type == "kimi_vl":
        return
    patch_forward_with_backends(model, use_fused_kernels, fused_kernels_backend)
"""

ULYSSES = """
ranks, rank = 1, 0


def get_ulysses_sequence_parallel_group():
    return None


def get_ulysses_sequence_parallel_world_size(group=None):
    return ranks


def get_ulysses_sequence_parallel_rank(group=None):
    return rank
"""

WORKER = "from verl.models.transformers.monkey_patch import apply_monkey_patch\n"

SOURCES = {
    "verl.models.transformers.dense_common": DENSE_COMMON,
    "verl.models.transformers.monkey_patch": MONKEY_PATCH,
    "verl.utils.ulysses": ULYSSES,
    "verl.workers.engine.fsdp.transformer_impl": WORKER,
}
