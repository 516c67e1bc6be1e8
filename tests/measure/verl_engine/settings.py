"""What an engine is built with, and what one of its passes computes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

QWEN = "Qwen/Qwen2.5-1.5B"


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """What an engine is built with."""

    model: str = QWEN
    critic: bool = False
    strategy: str = "fsdp2"
    fsdp_size: int | None = None  # GPUs that share one copy of the states; None: all
    model_dtype: str = "fp32"
    gradient_checkpointing: bool = True
    use_torch_compile: bool = True
    fused_kernels: str | None = None
    param_offload: bool = False
    optimizer_offload: bool = False
    activation_offload: bool = False
    reshard_after_forward: bool = True
    forward_prefetch: bool = False
    forward_only_engine: bool = False
    lora_rank: int = 0
    deferred_gradient_sync: bool = False
    entropy_checkpointing: bool = False
    entropy_chunking: bool = False
    ulysses: int = 1
    frozen_tower: bool = False


@dataclass(frozen=True, kw_only=True)
class PassSettings:
    """What one pass of an engine computes."""

    tokens: int
    kind: str = "update"  # or log_prob: forward only; or fine_tuning: an update with that loss
    calculate_entropy: bool = False
    micro_batches: int = 1
    sequence_length: int = 1024
    temperature: float = 1.0
    images_per_prompt: int = 0
    image_pixels: int = 0  # of one image, a square, as the processor has resized it


@dataclass(frozen=True, kw_only=True)
class Case:
    """One engine and the passes to record with it."""

    engine: EngineSettings = field(default_factory=EngineSettings)
    passes: Sequence[PassSettings]


def passes(
    *tokens: int,
    entropy: Sequence[bool] = (False, True),
    kinds: Sequence[str] = ("log_prob", "update"),
    sequence_length: int = 1024,
    temperature: float = 1.0,
) -> list[PassSettings]:
    """Every combination, in the order of a training step."""
    return [
        PassSettings(
            tokens=count,
            calculate_entropy=with_entropy,
            kind=kind,
            sequence_length=sequence_length,
            temperature=temperature,
        )
        for count in tokens
        for with_entropy in entropy
        for kind in kinds
    ]


def accumulation(tokens: int) -> list[PassSettings]:
    """Updates of one, two and four micro-batches."""
    return [PassSettings(tokens=tokens, micro_batches=count) for count in (1, 2, 4)]
