"""The machine-readable form of a run beside the model, and of how the job of its log ended."""

from typing import Annotated

from msgspec import Meta, Struct

from tuner.advise.engine_start import EngineComparison, FigureComparison
from tuner.advise.observations import MemoryComparison, Observation, PeakComparison, Sign
from tuner.consultation.result import Consultation, RunComparison
from tuner.inputs.log.run_log import RunLog
from tuner.out_of_memory.kinds import ErrorKind
from tuner.workload import Phase
from tuner.workload.observed_run import ObservedRun

Bytes = Annotated[int, Meta(description="bytes")]
MaybeSeconds = Annotated[float | None, Meta(description="seconds; null where there are none")]


class ObservedPhase(Struct, frozen=True, kw_only=True):
    """The seconds of one phase, as the run has them and as they are modelled."""

    phase: Phase
    observed_seconds: MaybeSeconds
    modelled_seconds: MaybeSeconds
    modelled_interval_s: Annotated[
        tuple[float, float] | None, Meta(description="the least and the most modelled seconds")
    ]


class ObservedMemory(Struct, frozen=True, kw_only=True):
    """The highest memory of PyTorch's allocator in the trainer's process, as the run has it and modelled."""

    allocated_bytes: Bytes
    modelled_bytes: Bytes
    modelled_high_bytes: Annotated[int, Meta(description="bytes, with the upper end of every term")]
    reserved_bytes: Annotated[int | None, Meta(description="bytes; null where the run does not say")]
    modelled_reserved_bytes: Annotated[
        tuple[int, int], Meta(description="the least and the most bytes that the allocator may hold")
    ]
    holds_engine: Annotated[
        bool,
        Meta(description="weights and cache of the rollout engine are counted in all, even while it sleeps"),
    ]
    taken: Annotated[str, Meta(description="when, and of which processes")]


class ObservedPeak(Struct, frozen=True, kw_only=True):
    """The highest memory of one phase over all ranks and steps of a recorded run, and the modelled."""

    phase: Phase
    allocated_bytes: Annotated[int, Meta(description="bytes that PyTorch's allocator handed out")]
    modelled_bytes: Annotated[int | None, Meta(description="bytes; null where the model has no such phase")]
    modelled_high_bytes: Annotated[int | None, Meta(description="bytes, with the upper end of every term")]
    reserved_bytes: Annotated[int, Meta(description="bytes of the card that the allocator took")]
    modelled_reserved_bytes: Annotated[
        tuple[int, int] | None, Meta(description="the least and the most bytes that it may hold")
    ]
    process_bytes: Annotated[
        int | None, Meta(description="bytes that the process held; null where nobody says")
    ]
    card_bytes: Annotated[
        int | None, Meta(description="bytes that all processes of the card held; null where nobody says")
    ]
    modelled_card_bytes: Annotated[int | None, Meta(description="bytes of everything on the card")]


class ObservedSign(Struct, frozen=True, kw_only=True):
    """What the run shows that a model alone cannot know."""

    sign: Sign
    value: Annotated[
        float,
        Meta(description="a share; slower and more_memory: times the modelled; preempting: per sequence"),
    ]
    phase: Phase | None
    timers: Annotated[tuple[str, ...], Meta(description="the trainer's names of what takes the time")]
    keys: Annotated[tuple[str, ...], Meta(description="settings that decide it")]


class ObservedSteps(Struct, frozen=True, kw_only=True):
    """The medians over the steps of a run beside the model."""

    first_step: int
    last_step: int
    steps: int
    phases: tuple[ObservedPhase, ...]
    seconds_from: Annotated[
        str | None, Meta(description="the metric that seconds were worked out from; null: they were timed")
    ] = None
    further_seconds: Annotated[
        dict[str, float], Meta(description="seconds of what is no phase, by the trainer's timers")
    ]
    step_seconds: MaybeSeconds
    modelled_step_seconds: float
    mean_prompt_tokens: float | None
    mean_response_tokens: float | None
    longest_response_tokens: float | None
    clip_ratio: Annotated[float | None, Meta(description="share of responses of the maximum length")]
    preemptions: Annotated[float | None, Meta(description="of a sequence, in the rollout engine")]
    memory: ObservedMemory | None
    peaks: Annotated[
        tuple[ObservedPeak, ...], Meta(description="of phases that a record has; empty without")
    ] = ()
    host_bytes: Annotated[int | None, Meta(description="bytes used on a node, by whomever")]
    signs: tuple[ObservedSign, ...]


class EngineFigure(Struct, frozen=True, kw_only=True):
    """A figure that the rollout engine printed when it was started, and the modelled one."""

    observed: int
    modelled: int


class LoggedEngine(Struct, frozen=True, kw_only=True):
    """The rollout engine as it was started; null where the log does not say."""

    kv_cache_tokens: Annotated[EngineFigure | None, Meta(description="of one engine")]
    kv_cache_bytes: Annotated[EngineFigure | None, Meta(description="of one GPU")]
    longest_sequence_tokens: EngineFigure | None


class LoggedError(Struct, frozen=True, kw_only=True):
    """How the job ran out of memory."""

    kind: ErrorKind
    text: str
    line: Annotated[int | None, Meta(description="of the log; null behind what was not read")]


class LogReport(Struct, frozen=True, kw_only=True):
    """What the log of a run says beside its configuration."""

    lengths: Annotated[tuple[str, ...], Meta(description="lengths of the workload that come from the run")]
    observed: Annotated[ObservedSteps | None, Meta(description="null where no step reports")]
    rollout_engine: Annotated[
        LoggedEngine | None, Meta(description="null where it printed nothing of its start, or several did")
    ] = None
    out_of_memory: LoggedError | None
    cut_bytes: Annotated[int, Meta(description="bytes in the middle of the log that were not read")]


def log_report(answer: Consultation, log: RunLog) -> LogReport:
    """What a log says, and a run beside the model."""
    error = log.out_of_memory
    return LogReport(
        lengths=answer.of_run,
        observed=None if answer.run is None else _steps(answer.run),
        rollout_engine=None if answer.engine is None else _engine(answer.engine),
        out_of_memory=None
        if error is None
        else LoggedError(kind=error.kind, text=error.text, line=error.line or None),
        cut_bytes=log.cut_bytes,
    )


def _engine(engine: EngineComparison) -> LoggedEngine:
    return LoggedEngine(
        kv_cache_tokens=_figure(engine.cache_tokens),
        kv_cache_bytes=_figure(engine.cache_bytes),
        longest_sequence_tokens=_figure(engine.sequence_tokens),
    )


def _figure(beside: FigureComparison | None) -> EngineFigure | None:
    return None if beside is None else EngineFigure(observed=beside.observed, modelled=beside.modelled)


def _steps(beside: RunComparison) -> ObservedSteps:
    both = beside.observations
    run = both.run
    return ObservedSteps(
        first_step=run.first_step,
        last_step=run.last_step,
        steps=run.steps,
        phases=tuple(
            ObservedPhase(
                phase=one.phase,
                observed_seconds=one.observed_seconds,
                modelled_seconds=one.modelled_seconds,
                modelled_interval_s=None
                if one.modelled is None
                else (one.modelled.low_s, one.modelled.high_s),
            )
            for one in both.phases
        ),
        seconds_from=run.seconds_from,
        further_seconds=dict(run.further_seconds),
        step_seconds=run.step_seconds,
        modelled_step_seconds=both.modelled_step.seconds,
        mean_prompt_tokens=run.mean_prompt_tokens,
        mean_response_tokens=run.mean_response_tokens,
        longest_response_tokens=run.longest_response_tokens,
        clip_ratio=run.clip_ratio,
        preemptions=run.preemptions,
        memory=None if both.memory is None else _memory(run, both.memory),
        peaks=tuple(_peak(one) for one in both.peaks),
        host_bytes=run.host_bytes,
        signs=tuple(_sign(sign, beside) for sign in both.signs),
    )


def _memory(run: ObservedRun, memory: MemoryComparison) -> ObservedMemory:
    assert run.memory is not None  # else there is nothing beside it
    return ObservedMemory(
        allocated_bytes=memory.observed_bytes,
        modelled_bytes=memory.modelled_bytes,
        modelled_high_bytes=memory.modelled_high_bytes,
        reserved_bytes=memory.reserved_bytes,
        modelled_reserved_bytes=memory.modelled_reserved_bytes,
        holds_engine=run.memory.holds_engine,
        taken=run.memory.taken,
    )


def _peak(one: PeakComparison) -> ObservedPeak:
    return ObservedPeak(
        phase=one.peak.phase,
        allocated_bytes=one.peak.allocated_bytes,
        modelled_bytes=one.modelled_bytes,
        modelled_high_bytes=one.modelled_high_bytes,
        reserved_bytes=one.peak.reserved_bytes,
        modelled_reserved_bytes=one.modelled_reserved_bytes,
        process_bytes=one.peak.process_bytes,
        card_bytes=one.peak.card_bytes,
        modelled_card_bytes=one.modelled_card_bytes,
    )


def _sign(sign: Observation, beside: RunComparison) -> ObservedSign:
    keys = (key for field in sign.fields for key in beside.keys.get(field, ()))
    return ObservedSign(
        sign=sign.sign, value=sign.value, phase=sign.phase, timers=sign.names, keys=tuple(dict.fromkeys(keys))
    )
