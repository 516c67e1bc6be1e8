"""What sets one measured pass apart from the others."""

from tuner.accuracy.measured_files import MeasuredCase

# What a measured pass is unless its row says otherwise.
USUAL = {
    "model_dtype": "fp32",
    "strategy": "fsdp2",
    "gradient_checkpointing": True,
    "use_torch_compile": True,
    "reshard_after_forward": True,
    "temperature": 1.0,
    "micro_batches": 1,
    "lora_rank": 0,
    "ulysses": 1,
    "images_per_prompt": 0,
    "image_pixels": 0,
}
_SWITCHES = (
    "critic",
    "calculate_entropy",
    "entropy_chunking",
    "entropy_checkpointing",
    "activation_offload",
    "deferred_gradient_sync",
    "forward_only_engine",
    "forward_prefetch",
    "frozen_tower",
    "optimizer_offload",
    "param_offload",
    "use_liger",
)


def special_settings(case: MeasuredCase) -> tuple[str, ...]:
    """The settings that are not the usual ones, as ``key=value``; a switch that is on by its name."""
    special = [f"{key}={getattr(case, key)}" for key, usual in USUAL.items() if getattr(case, key) != usual]
    special += [key for key in _SWITCHES if getattr(case, key)]
    named = {"layers": case.layers, "fsdp_size": case.fsdp_size, "fused_kernels": case.fused_kernels}
    return (*special, *(f"{key}={value}" for key, value in named.items() if value is not None))
