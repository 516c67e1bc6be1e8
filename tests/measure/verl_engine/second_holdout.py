"""A second hold-out, of models, sizes and settings that neither a derivation nor the first one used.

The order is that of importance: what a time limit cuts off comes last.
"""

from dataclasses import replace

from measure.verl_engine.settings import Case, EngineSettings, PassSettings, accumulation, passes

_LLAMA_3B = EngineSettings(model="meta-llama/Llama-3.2-3B")
_QWEN_7B = EngineSettings(model="Qwen/Qwen2.5-7B")
_QWEN3_06B = EngineSettings(model="Qwen/Qwen3-0.6B")
_QWEN3_8B = EngineSettings(model="Qwen/Qwen3-8B")
_SMOLLM3 = EngineSettings(model="HuggingFaceTB/SmolLM3-3B")
_OLMO2 = EngineSettings(model="allenai/OLMo-2-1124-7B")
_PHI4_MINI = EngineSettings(model="microsoft/Phi-4-mini-instruct")
_MISTRAL = EngineSettings(model="mistralai/Mistral-7B-v0.3")
_GEMMA2 = EngineSettings(model="google/gemma-2-2b")
_QWEN3_MOE = EngineSettings(model="shapes/qwen3-30b-a3b-4-layers")
_DEEPSEEK2 = EngineSettings(model="shapes/deepseek-v2-lite-4-layers")
_DEEPSEEK3 = EngineSettings(model="shapes/deepseek-v3-3-layers-16-experts")
_BF16 = {"model_dtype": "bf16"}
_FULL = {"gradient_checkpointing": False}


def two_gpus() -> dict[str, Case]:
    """Cases for two GPUs by their names."""
    return {**_first_lane(), **_second_lane()}


def _first_lane() -> dict[str, Case]:
    plain = [False]
    return {
        "llama-3.2-3b": Case(engine=_LLAMA_3B, passes=passes(12288, sequence_length=2048)),
        "qwen3-0.6b-no-checkpointing": Case(
            engine=replace(_QWEN3_06B, **_FULL), passes=passes(10240, sequence_length=512)
        ),
        "deepseek-v2-bf16": Case(engine=replace(_DEEPSEEK2, **_BF16), passes=passes(20480, temperature=0.8)),
        "qwen3-moe-bf16-fsdp1": Case(
            engine=replace(_QWEN3_MOE, strategy="fsdp", **_BF16), passes=passes(12288, entropy=[True])
        ),
        "qwen2.5-7b-critic": Case(engine=replace(_QWEN_7B, critic=True), passes=passes(12288, entropy=plain)),
        "qwen3-8b-reference": Case(
            engine=replace(_QWEN3_8B, forward_only_engine=True, **_BF16),
            passes=passes(6144, 24576, kinds=["log_prob"]),
        ),
        "smollm3-3b-fsdp1": Case(
            engine=replace(_SMOLLM3, strategy="fsdp"), passes=passes(16384, entropy=plain)
        ),
        "olmo-2-7b-bf16": Case(engine=replace(_OLMO2, **_BF16), passes=passes(10240)),
        "llama-3.2-3b-ulysses": Case(
            engine=replace(_LLAMA_3B, ulysses=2, **_FULL, **_BF16), passes=passes(6144, entropy=plain)
        ),
    }


def _second_lane() -> dict[str, Case]:
    plain = [False]
    return {
        "qwen2.5-7b-bf16-fsdp1-no-checkpointing": Case(
            engine=replace(_QWEN_7B, strategy="fsdp", **_BF16, **_FULL),
            passes=passes(5120, entropy=[True], sequence_length=256),
        ),
        "deepseek-v3-no-checkpointing": Case(
            engine=replace(_DEEPSEEK3, **_FULL, **_BF16), passes=passes(6144, entropy=plain)
        ),
        "qwen3-moe": Case(engine=_QWEN3_MOE, passes=[*passes(16384), *accumulation(4096)]),
        "phi-4-mini-bf16": Case(engine=replace(_PHI4_MINI, **_BF16), passes=passes(10240)),
        "qwen3-8b-lora": Case(
            engine=replace(_QWEN3_8B, lora_rank=16, **_BF16), passes=passes(20480, entropy=plain)
        ),
        "gemma-2-2b-bf16-fsdp1": Case(
            engine=replace(_GEMMA2, strategy="fsdp", **_BF16), passes=passes(8192, entropy=[True])
        ),
        "mistral-7b-bf16-no-checkpointing": Case(
            engine=replace(_MISTRAL, **_BF16, **_FULL),
            passes=[*passes(8192, entropy=plain), PassSettings(tokens=4096, micro_batches=2)],
        ),
        "smollm3-3b-bf16-fused-torch": Case(
            engine=replace(_SMOLLM3, fused_kernels="torch", **_BF16), passes=passes(20480)
        ),
        "qwen3-0.6b-eager-warmer": Case(
            engine=replace(_QWEN3_06B, use_torch_compile=False), passes=passes(6144, temperature=1.3)
        ),
    }
