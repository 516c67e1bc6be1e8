"""Engines and passes that no derivation was written from: other models, settings and numbers of GPUs.

The order is that of importance: what a time limit cuts off comes last.
"""

from dataclasses import replace

from measure.verl_engine.settings import Case, EngineSettings, PassSettings, accumulation, passes

_QWEN_3B = EngineSettings(model="Qwen/Qwen2.5-3B")
_QWEN_7B = EngineSettings(model="Qwen/Qwen2.5-7B")
_QWEN3_4B = EngineSettings(model="Qwen/Qwen3-4B")
_QWEN3_8B = EngineSettings(model="Qwen/Qwen3-8B")
_LLAMA_8B = EngineSettings(model="meta-llama/Llama-3.1-8B")
_MISTRAL = EngineSettings(model="mistralai/Mistral-7B-v0.3")
_GEMMA2 = EngineSettings(model="google/gemma-2-2b")
_GEMMA3 = EngineSettings(model="google/gemma-3-1b-pt")
_QWEN3_MOE = EngineSettings(model="shapes/qwen3-30b-a3b-4-layers")
_DEEPSEEK2 = EngineSettings(model="shapes/deepseek-v2-lite-4-layers")
_DEEPSEEK3 = EngineSettings(model="shapes/deepseek-v3-3-layers-16-experts")
_OFFLOAD = {"param_offload": True, "optimizer_offload": True}
_BF16 = {"model_dtype": "bf16"}
_ENTROPY_PARTS = {"entropy_chunking": True, "entropy_checkpointing": True}


def two_gpus() -> dict[str, Case]:
    """Cases for two GPUs by their names."""
    return {
        **_dense_two_gpus(),
        **_other_families(),
        **_heads(),
        **_long(),
        **_rest(),
    }


def _dense_two_gpus() -> dict[str, Case]:
    full = {"gradient_checkpointing": False}
    return {
        "qwen2.5-7b": Case(engine=_QWEN_7B, passes=passes(8192)),
        "qwen2.5-3b": Case(
            engine=_QWEN_3B,
            passes=[
                *passes(4096, sequence_length=512),
                *passes(32768, entropy=[False], sequence_length=4096),
            ],
        ),
        "llama-3.1-8b": Case(engine=_LLAMA_8B, passes=passes(16384, sequence_length=4096)),
        "qwen3-4b-no-checkpointing": Case(engine=replace(_QWEN3_4B, **full), passes=passes(4096)),
        "mistral-7b-cooler": Case(engine=_MISTRAL, passes=passes(8192, temperature=0.7)),
        "qwen2.5-7b-fsdp1": Case(
            engine=replace(_QWEN_7B, strategy="fsdp"),
            passes=[*passes(6144, entropy=[True]), PassSettings(tokens=6144, micro_batches=2)],
        ),
        "llama-3.1-8b-fsdp1-no-checkpointing": Case(
            engine=replace(_LLAMA_8B, strategy="fsdp", **full),
            passes=passes(3072, entropy=[False], sequence_length=512),
        ),
        "qwen2.5-7b-no-checkpointing": Case(
            engine=replace(_QWEN_7B, **full),
            passes=[*passes(2048), PassSettings(tokens=4096), PassSettings(tokens=2048, micro_batches=2)],
        ),
        "qwen3-8b-bf16": Case(
            engine=replace(_QWEN3_8B, model_dtype="bf16"), passes=passes(8192, sequence_length=2048)
        ),
        "qwen3-8b-fsdp1-cooler": Case(
            engine=replace(_QWEN3_8B, strategy="fsdp"), passes=passes(4096, entropy=[True], temperature=0.7)
        ),
        "qwen3-4b": Case(
            engine=_QWEN3_4B, passes=[*passes(16384), *passes(32768, entropy=[False], kinds=["log_prob"])]
        ),
        "qwen2.5-3b-eager-cooler": Case(
            engine=replace(_QWEN_3B, use_torch_compile=False), passes=passes(12288, temperature=0.7)
        ),
    }


def _other_families() -> dict[str, Case]:
    full = {"gradient_checkpointing": False}
    return {
        "gemma-2-2b": Case(engine=_GEMMA2, passes=passes(4096)),
        "gemma-2-2b-no-checkpointing": Case(engine=replace(_GEMMA2, **full), passes=passes(4096)),
        "gemma-3-1b": Case(engine=_GEMMA3, passes=passes(8192)),
        "gemma-3-1b-no-checkpointing": Case(
            engine=replace(_GEMMA3, **full), passes=passes(4096, entropy=[False])
        ),
        "qwen3-moe": Case(engine=_QWEN3_MOE, passes=passes(8192)),
        "qwen3-moe-no-checkpointing": Case(
            engine=replace(_QWEN3_MOE, **full), passes=passes(4096, entropy=[False])
        ),
        "deepseek-v2": Case(engine=_DEEPSEEK2, passes=passes(8192)),
        "deepseek-v2-no-checkpointing": Case(
            engine=replace(_DEEPSEEK2, **full), passes=passes(4096, entropy=[False])
        ),
        "deepseek-v3": Case(engine=_DEEPSEEK3, passes=passes(4096)),
        "deepseek-v3-no-checkpointing": Case(
            engine=replace(_DEEPSEEK3, **full), passes=passes(2048, entropy=[False])
        ),
    }


def _heads() -> dict[str, Case]:
    only_entropy = passes(16384, entropy=[True])
    return {
        "llama-3.1-8b-entropy-parts": Case(
            engine=replace(_LLAMA_8B, **_ENTROPY_PARTS), passes=passes(8192, entropy=[True])
        ),
        "mistral-7b-entropy-parts": Case(
            engine=replace(_MISTRAL, **_ENTROPY_PARTS), passes=passes(32768, entropy=[True])
        ),
        "llama-3.1-8b-bf16-entropy-parts": Case(
            engine=replace(_LLAMA_8B, **_BF16, **_ENTROPY_PARTS), passes=only_entropy
        ),
        "gemma-3-1b-entropy-parts": Case(engine=replace(_GEMMA3, **_ENTROPY_PARTS), passes=only_entropy),
        "llama-3.1-8b-bf16-entropy-checkpointing": Case(
            engine=replace(_LLAMA_8B, **_BF16, entropy_checkpointing=True), passes=only_entropy
        ),
        "qwen3-4b-bf16-entropy-chunking-eager": Case(
            engine=replace(_QWEN3_4B, **_BF16, entropy_chunking=True, use_torch_compile=False),
            passes=only_entropy,
        ),
        "qwen3-4b-fused-torch": Case(
            engine=replace(_QWEN3_4B, fused_kernels="torch"), passes=passes(8192, temperature=0.7)
        ),
        "qwen2.5-3b-bf16-fused-triton": Case(
            engine=replace(_QWEN_3B, **_BF16, fused_kernels="triton"), passes=passes(32768)
        ),
        "qwen2.5-7b-bf16-fsdp1-fused-triton": Case(
            engine=replace(_QWEN_7B, **_BF16, strategy="fsdp", fused_kernels="triton"), passes=only_entropy
        ),
    }


def _long() -> dict[str, Case]:
    """Passes whose peak lies in the forward or backward pass and not in AdamW's step."""
    full = {"gradient_checkpointing": False}
    plain = [False]
    return {
        "qwen3-moe-no-checkpointing-long": Case(
            engine=replace(_QWEN3_MOE, **full), passes=passes(24576, entropy=plain, sequence_length=2048)
        ),
        "deepseek-v2-no-checkpointing-long": Case(
            engine=replace(_DEEPSEEK2, **full), passes=passes(16384, entropy=plain)
        ),
        "deepseek-v3-no-checkpointing-long": Case(
            engine=replace(_DEEPSEEK3, **full), passes=passes(8192, entropy=plain)
        ),
        "qwen3-moe-long": Case(engine=_QWEN3_MOE, passes=passes(32768, entropy=[True])),
        "deepseek-v2-long": Case(engine=_DEEPSEEK2, passes=passes(32768, entropy=plain)),
        "llama-3.1-8b-bf16-fsdp1-no-checkpointing": Case(
            engine=replace(_LLAMA_8B, strategy="fsdp", **_BF16, **full),
            passes=passes(6144, entropy=plain, sequence_length=512),
        ),
        "qwen2.5-7b-bf16": Case(engine=replace(_QWEN_7B, **_BF16), passes=passes(32768, entropy=[True])),
        "gemma-2-2b-bf16": Case(engine=replace(_GEMMA2, **_BF16), passes=passes(16384)),
        "mistral-7b-bf16-cooler": Case(
            engine=replace(_MISTRAL, **_BF16), passes=passes(32768, sequence_length=4096, temperature=0.7)
        ),
    }


def _rest() -> dict[str, Case]:
    full = {"gradient_checkpointing": False}
    plain = [False]
    return {
        "qwen2.5-3b-critic": Case(
            engine=replace(_QWEN_3B, critic=True, **full), passes=passes(8192, entropy=plain)
        ),
        "llama-3.1-8b-bf16-fsdp1-critic": Case(
            engine=replace(_LLAMA_8B, critic=True, strategy="fsdp", **_BF16),
            passes=passes(16384, entropy=plain),
        ),
        "llama-3.1-8b-lora-bf16": Case(
            engine=replace(_LLAMA_8B, lora_rank=16, **_BF16), passes=passes(16384)
        ),
        "qwen2.5-7b-lora-no-checkpointing": Case(
            engine=replace(_QWEN_7B, lora_rank=64, **full), passes=passes(6144, entropy=plain)
        ),
        "qwen3-8b-lora-bf16-fsdp1-no-checkpointing": Case(
            engine=replace(_QWEN3_8B, lora_rank=32, strategy="fsdp", **_BF16, **full),
            passes=passes(6144, entropy=plain),
        ),
        "llama-3.1-8b-bf16-ulysses": Case(
            engine=replace(_LLAMA_8B, ulysses=2, **_BF16), passes=passes(16384, entropy=plain)
        ),
        "qwen3-4b-ulysses-no-checkpointing": Case(
            engine=replace(_QWEN3_4B, ulysses=2, **full), passes=passes(8192, entropy=plain)
        ),
        "qwen3-4b-bf16-activation-offload": Case(
            engine=replace(_QWEN3_4B, activation_offload=True, **_BF16), passes=passes(32768, entropy=plain)
        ),
        "qwen2.5-3b-offload": Case(engine=replace(_QWEN_3B, **_OFFLOAD), passes=passes(16384, entropy=plain)),
        "llama-3.1-8b-reference": Case(
            engine=replace(_LLAMA_8B, forward_only_engine=True, **_BF16),
            passes=passes(16384, kinds=["log_prob"]),
        ),
        "qwen2.5-3b-bf16-unsharded": Case(
            engine=replace(_QWEN_3B, reshard_after_forward=False, **_BF16),
            passes=passes(16384, entropy=plain),
        ),
        "qwen2.5-7b-bf16-fsdp1-prefetch": Case(
            engine=replace(_QWEN_7B, strategy="fsdp", forward_prefetch=True, **_BF16),
            passes=passes(16384, entropy=plain),
        ),
    }


def four_gpus() -> dict[str, Case]:
    """Cases for four GPUs by their names."""
    fsdp1 = replace(_QWEN_3B, strategy="fsdp")
    deferred = {"deferred_gradient_sync": True}
    short = passes(8192, entropy=[False])
    return {
        "4-deferred": Case(engine=replace(_QWEN_3B, **deferred), passes=accumulation(4096)),
        "4-fsdp1-deferred": Case(engine=replace(fsdp1, **deferred), passes=accumulation(4096)),
        "4-fsdp1-synchronised": Case(engine=fsdp1, passes=accumulation(4096)),
        "4-hsdp": Case(
            engine=replace(_QWEN_3B, fsdp_size=2), passes=[*passes(8192, entropy=[True]), *accumulation(4096)]
        ),
        "4-fsdp1-hsdp": Case(engine=replace(fsdp1, fsdp_size=2), passes=[*short, *accumulation(4096)]),
        "4-qwen2.5-7b": Case(engine=_QWEN_7B, passes=passes(16384)),
        "4-llama-3.1-8b-ulysses": Case(
            engine=replace(_LLAMA_8B, ulysses=4), passes=passes(8192, sequence_length=4096)
        ),
        "4-hsdp-deferred": Case(engine=replace(_QWEN_3B, fsdp_size=2, **deferred), passes=accumulation(4096)),
        "4-qwen3-8b-ulysses-no-checkpointing": Case(
            engine=replace(_QWEN3_8B, ulysses=2, gradient_checkpointing=False),
            passes=passes(4096, entropy=[False]),
        ),
        "4-qwen2.5-7b-offload": Case(engine=replace(_QWEN_7B, **_OFFLOAD), passes=short),
    }
