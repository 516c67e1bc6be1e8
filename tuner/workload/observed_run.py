"""What a run of a job reported of its steps: seconds, lengths, memory."""

from msgspec import Struct

from tuner.workload.step import Phase


class PeakMemory(Struct, frozen=True, kw_only=True):
    """The highest memory that PyTorch's allocator counted in the trainer's process, since it was started."""

    allocated_bytes: int
    reserved_bytes: int | None  # None where the run does not say
    holds_engine: (
        bool  # weights and cache of a sleeping rollout engine count as well, whether on the card or not
    )
    taken: str  # when, and of which processes


class PhasePeak(Struct, frozen=True, kw_only=True):
    """The highest memory of one phase over all ranks and steps of a run, in bytes."""

    phase: Phase
    allocated_bytes: int  # handed out by PyTorch's allocator in the trainer's process
    reserved_bytes: int  # taken of the card by it
    process_bytes: int | None = None  # held by the process, CUDA's context included; None: nobody says
    card_bytes: int | None = None  # held by all processes of the card; None: nobody says


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
    seconds_from: str | None = None  # the metric that they were worked out from; None: they were timed
    holds_sync: bool = False  # the rollout's seconds are those of handing over new weights as well
    further_seconds: tuple[tuple[str, float], ...] = ()  # of no phase, by the trainer's timers; most first
    step_seconds: float | None = None
    mean_prompt_tokens: float | None = None
    mean_response_tokens: float | None = None
    longest_response_tokens: float | None = None  # of a step
    clip_ratio: float | None = None  # share of responses that the maximum length ended
    tool_seconds: float | None = None  # that the response which ends last waits for tools
    turns: float | None = None  # in which a response is generated, on average
    preemptions: float | None = None  # of a sequence, in the rollout engine
    memory: PeakMemory | None = None
    peaks: tuple[PhasePeak, ...] = ()  # of phases that were recorded one by one
    host_bytes: int | None = None  # used on a node, by whomever; the highest

    def phase_seconds(self, phase: Phase) -> float | None:
        """The seconds of a phase; None where the run does not say."""
        return dict(self.seconds).get(phase)
