"""Which types of model Liger has fused layers for.

Source: Liger-Kernel 0.8.5 ``transformers/monkey_patch.py`` (``MODEL_TYPE_TO_APPLY_LIGER_FN``). For any other
``_apply_liger_kernel_to_instance`` logs that there are none, and the layers stay as they are.
"""

#: Of the types that can be read here, those that it has nothing for.
UNFUSED = frozenset({"glm4_moe", "gpt2", "kimi_k2", "mimo", "phi", "qwen2_moe", "seed_oss"})


def has_fused_layers(architecture: str) -> bool:
    """Whether there are any for a ``model_type``; assumed of one that cannot be read here."""
    return architecture not in UNFUSED
