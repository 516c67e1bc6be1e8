"""The engines and passes of ``docs/validation/data/verl-0.9.1-fsdp-2xh200-more.json``."""

from dataclasses import replace

from measure.verl_engine.settings import Case, EngineSettings, accumulation, passes


def cases() -> dict[str, Case]:
    """Every case by its name; for two GPUs."""
    plain = EngineSettings()
    fsdp1 = replace(plain, strategy="fsdp")
    lora = replace(plain, lora_rank=32)
    llama = replace(plain, model="meta-llama/Llama-3.2-1B")
    qwen3 = replace(plain, model="Qwen/Qwen3-1.7B")
    reference = replace(plain, forward_only_engine=True)
    both = passes(4096, 16384)
    middle = passes(8192)
    short = passes(8192, entropy=[False])
    log_probs = passes(4096, 16384, kinds=["log_prob"])
    return {
        "lora": Case(engine=lora, passes=passes(8192, 16384)),
        "lora-bf16": Case(engine=replace(lora, model_dtype="bf16"), passes=passes(8192, 16384)),
        "fsdp1": Case(engine=fsdp1, passes=both),
        "deferred": Case(engine=replace(plain, deferred_gradient_sync=True), passes=accumulation(8192)),
        "synchronised": Case(engine=plain, passes=accumulation(8192)),
        "offload": Case(
            engine=replace(plain, param_offload=True, optimizer_offload=True), passes=passes(4096, 8192)
        ),
        "activation-offload": Case(
            engine=replace(plain, activation_offload=True), passes=passes(8192, 16384)
        ),
        "ulysses": Case(engine=replace(plain, ulysses=2), passes=passes(4096, 8192)),
        "llama": Case(engine=llama, passes=middle),
        "llama-no-checkpointing": Case(engine=replace(llama, gradient_checkpointing=False), passes=middle),
        "qwen3": Case(engine=qwen3, passes=middle),
        "qwen3-no-checkpointing": Case(engine=replace(qwen3, gradient_checkpointing=False), passes=middle),
        "prefetch": Case(engine=replace(plain, forward_prefetch=True), passes=short),
        "reference": Case(engine=reference, passes=log_probs),
        "reference-bf16": Case(engine=replace(reference, model_dtype="bf16"), passes=log_probs),
        "repeated": Case(engine=replace(plain, use_torch_compile=False), passes=middle),
        "bf16": Case(engine=replace(plain, model_dtype="bf16"), passes=middle),
        "fsdp1-no-checkpointing": Case(
            engine=replace(fsdp1, gradient_checkpointing=False), passes=passes(4096)
        ),
        "fsdp1-deferred": Case(engine=replace(fsdp1, deferred_gradient_sync=True), passes=accumulation(8192)),
        "fsdp1-synchronised": Case(engine=fsdp1, passes=accumulation(8192)),
        "fsdp1-offload": Case(
            engine=replace(fsdp1, param_offload=True, optimizer_offload=True), passes=passes(8192)
        ),
        "param-offload": Case(engine=replace(plain, param_offload=True), passes=short),
        "optimizer-offload": Case(engine=replace(plain, optimizer_offload=True), passes=short),
        "activation-offload-no-checkpointing": Case(
            engine=replace(plain, activation_offload=True, gradient_checkpointing=False), passes=short
        ),
        "fsdp1-activation-offload": Case(engine=replace(fsdp1, activation_offload=True), passes=short),
        "fsdp1-lora": Case(engine=replace(lora, strategy="fsdp"), passes=middle),
        "lora-no-checkpointing": Case(engine=replace(lora, gradient_checkpointing=False), passes=short),
        "fsdp1-prefetch": Case(engine=replace(fsdp1, forward_prefetch=True), passes=short),
        "fsdp1-reference": Case(engine=replace(reference, strategy="fsdp"), passes=log_probs),
        "unsharded": Case(engine=replace(plain, reshard_after_forward=False), passes=short),
        "fsdp1-unsharded": Case(engine=replace(fsdp1, reshard_after_forward=False), passes=short),
        "prefetch-long": Case(engine=replace(plain, forward_prefetch=True), passes=passes(16384)),
        "activation-offload-lora": Case(engine=replace(lora, activation_offload=True), passes=passes(16384)),
        "deferred-long": Case(
            engine=replace(plain, deferred_gradient_sync=True),
            passes=[replace(item, sequence_length=4096) for item in accumulation(16384)],
        ),
    }
