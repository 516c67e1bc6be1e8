"""What one training pass on the device is, and what it took; handed between the parent and its workers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from msgspec import structs

from tuner.workload import Checkpointing, Engine, OutputHead

#: Types of models with a vision tower that our engine runs.
SEEING = frozenset({"qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "gemma3"})


class Stage(str, Enum):
    """What a pass does one after the other."""

    FORWARD = "forward"
    BACKWARD = "backward"
    STEP = "step"  # clipping, and the optimizer's step


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """What a model with random weights is built from."""

    config: dict[str, Any]  # the model's config.json, cut to the layers that are run
    critic: bool = False  # one value per token in the place of the output head


@dataclass(frozen=True, kw_only=True)
class PromptImages:
    """The images at the beginning of every sequence, all of one size."""

    per_prompt: int
    rows: int  # patches of one
    columns: int
    tokens: int  # that the vision tower makes of one


@dataclass(frozen=True, kw_only=True)
class PassSettings:
    """One pass over the model on every GPU that takes part.

    Micro-batches hold whole sequences of one length, half of it prompt and half of it response; under
    Ulysses each of the GPUs that share them has a part of every micro-batch.
    """

    engine: Engine
    head: OutputHead
    training: bool  # forward, backward and the optimizer's step; else forward alone
    entropy: bool
    tokens: int  # of one micro-batch on one GPU
    sequence_length: int
    micro_batches: int
    first_tokens: int | None = None  # of all micro-batches but the last; None: as many as the last
    temperature: float = 1.0
    images: PromptImages | None = None

    @property
    def sequences(self) -> int:
        """How many sequences one micro-batch has, over the GPUs that share them."""
        return self.tokens * self.engine.parallel.ulysses // self.sequence_length

    @property
    def timed(self) -> "PassSettings":
        """What is run for the time: whole micro-batches alone."""
        if self.first_tokens is None:
            return self
        return replace(self, micro_batches=1, first_tokens=None)

    @property
    def built(self) -> Engine:
        """What an engine has to be built with; passes that agree in it can share one.

        Checkpointing, and what is moved to the host between passes, can be switched at any time.
        """
        return structs.replace(
            self.engine,
            checkpointing=Checkpointing.NONE,
            param_offload=False,
            optimizer_offload=False,
            deferred_gradient_sync=False,
        )


@dataclass(frozen=True, kw_only=True)
class PassFigures:
    """What one GPU saw of a pass. Bytes are None on a CPU, whose memory nothing counts."""

    engine: str  # whose code ran
    allocated_before_bytes: int | None
    peak_allocated_bytes: int | None
    peak_requested_bytes: int | None
    peak_reserved_bytes: int | None
    non_torch_bytes: int | None  # used on the GPU beside what this process's allocator holds
    stages: Mapping[Stage, int] = field(default_factory=dict)  # peak of allocated bytes in each
    seconds: tuple[float, ...] = field(default=())  # of each repetition of ``PassSettings.timed``
    once_seconds: tuple[float, ...] = field(default=())  # of each, what its micro-batches do not multiply


@dataclass(frozen=True, kw_only=True)
class PassFailed:
    """A pass that came to no end."""

    message: str
    out_of_memory: bool = False
