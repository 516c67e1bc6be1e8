"""Passes of supervised fine-tuning on verl's FSDP engine, beside the same passes of an actor; for two GPUs.

Both compute log-probabilities without entropy, so that they should peak alike.
"""

from dataclasses import replace

from measure.verl_engine.engine import FINE_TUNING
from measure.verl_engine.settings import Case, EngineSettings, passes


def cases() -> dict[str, Case]:
    """Every case by its name."""
    plain = EngineSettings()
    both = passes(4096, 16384, entropy=[False], kinds=["update", FINE_TUNING])
    return {
        "fine-tuning": Case(engine=plain, passes=both),
        "fine-tuning-fsdp1": Case(engine=replace(plain, strategy="fsdp"), passes=both),
        "fine-tuning-lora": Case(engine=replace(plain, lora_rank=32), passes=both),
        "fine-tuning-ulysses": Case(engine=replace(plain, ulysses=2), passes=both),
        "fine-tuning-fused": Case(engine=replace(plain, fused_kernels="torch"), passes=both),
    }
