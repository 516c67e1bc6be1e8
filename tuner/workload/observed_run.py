"""What a run of a job reported of its steps: seconds, lengths, memory."""

from typing import Annotated

from msgspec import Meta, Struct

from tuner.field_marks import Bytes, MaybeSeconds
from tuner.workload.step import Phase


class PeakMemory(Struct, frozen=True, kw_only=True):
    """The highest memory that PyTorch's allocator counted in the trainer's process, since it was started."""

    allocated_bytes: Bytes
    reserved_bytes: Annotated[int | None, Meta(description="bytes; null where the run does not say")]
    holds_engine: Annotated[
        bool,
        Meta(description="weights and cache of the rollout engine are counted in all, even while it sleeps"),
    ]
    taken: Annotated[str, Meta(description="when, and of which processes")]


class PhasePeak(Struct, frozen=True, kw_only=True):
    """The highest memory of one phase over all ranks and steps of a run, in bytes."""

    phase: Phase
    # in the trainer's process
    allocated_bytes: Annotated[int, Meta(description="bytes that PyTorch's allocator handed out")]
    reserved_bytes: Annotated[int, Meta(description="bytes of the card that the allocator took")]
    # CUDA's context included
    process_bytes: Annotated[
        int | None, Meta(description="bytes that the process held; null where nobody says")
    ] = None
    card_bytes: Annotated[
        int | None, Meta(description="bytes that all processes of the card held; null where nobody says")
    ] = None


class EngineStart(Struct, frozen=True, kw_only=True):
    """What a rollout engine had when it was started, on one GPU; None where it does not say."""

    cache_tokens: int | None = None
    cache_blocks: int | None = None  # of so many tokens as the engine's settings say
    cache_bytes: int | None = None
    sequence_tokens: int | None = None  # the longest sequence that it takes


class ObservedRun(Struct, frozen=True, kw_only=True):
    """The medians over the steps of a run, but for memory, of which the highest counts."""

    first_step: int
    last_step: int
    steps: int  # that are counted
    seconds: tuple[tuple[Phase, float], ...] = ()
    seconds_from: Annotated[
        str | None, Meta(description="the metric that seconds were worked out from; null: they were timed")
    ] = None
    holds_sync: bool = False  # the rollout's seconds are those of handing over new weights as well
    # most first
    further_seconds: Annotated[
        tuple[tuple[str, float], ...],
        Meta(description="seconds of what is no phase, by the trainer's timers"),
    ] = ()
    step_seconds: MaybeSeconds = None
    mean_prompt_tokens: float | None = None
    mean_response_tokens: float | None = None
    longest_response_tokens: float | None = None  # of a step
    clip_ratio: Annotated[float | None, Meta(description="share of responses of the maximum length")] = None
    tool_seconds: float | None = None  # that the response which ends last waits for tools
    generation_rounds: float | None = None  # of a step, until a filter had kept enough groups
    kept_groups: float | None = None  # share of groups that a filter kept
    turns: float | None = None  # in which a response is generated, on average
    preemptions: Annotated[float | None, Meta(description="of a sequence, in the rollout engine")] = None
    memory: PeakMemory | None = None
    peaks: tuple[PhasePeak, ...] = ()  # of phases that were recorded one by one
    # the highest
    host_bytes: Annotated[int | None, Meta(description="bytes used on a node, by whomever")] = None

    def phase_seconds(self, phase: Phase) -> float | None:
        """The seconds of a phase; None where the run does not say."""
        return dict(self.seconds).get(phase)
