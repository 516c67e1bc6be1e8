"""A run beside the model: seconds and memory as they were observed and as they are modelled."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict

from tuner.advise.answer import Advice
from tuner.advise.expected import ExpectedPass, expected_passes
from tuner.enumeration import Enum
from tuner.field_marks import UNPUBLISHED, Bytes, MaybeSeconds
from tuner.memory import PhaseEstimate
from tuner.timing import Interval, phase_interval
from tuner.workload import Phase
from tuner.workload.observed_run import ObservedRun, PeakMemory, PhasePeak

_SLOWER = 1.5  # times the modelled seconds, and more than the high end of their interval
_TELLING_SHARE = 0.1  # of a step, below which seconds are not worth a word
_IDLE_SHARE = 0.5  # of the KV cache
_CUT_SHARE = 0.05  # of responses
_MORE = 1.05  # times the upper end of the modelled memory
_LESS = 0.8  # of the modelled memory
_PREEMPTED = 0.01  # times, of a sequence


class Sign(Enum):
    """What a run shows that a model alone cannot know."""

    LONGEST = "longest"  # the phase that takes most of the step
    SLOWER = "slower"  # a phase takes longer than the model can explain
    UNCOUNTED = "uncounted"  # much of the step is no phase of the model
    PREEMPTING = "preempting"  # the rollout engine has too little cache for the sequences that it runs
    CACHE_IDLE = "cache_idle"  # it has far more than they fill
    CUT_RESPONSES = "cut_responses"  # many responses end at their maximum length
    MORE_MEMORY = "more_memory"  # the run, or a phase of it, took more than the model's high end
    LESS_MEMORY = "less_memory"  # the phase with the highest peak took far less than the model says


class Observation(Struct, frozen=True, kw_only=True):
    """One sign, with its figures."""

    sign: Sign
    value: Annotated[
        float,
        Meta(description="a share; slower and more_memory: times the modelled; preempting: per sequence"),
    ]
    phase: Phase | None = None
    # most seconds first
    timers: Annotated[tuple[str, ...], Meta(description="the trainer's names of what takes the time")] = ()
    fields: tuple[tuple[str, ...], ...] = ()  # of the workload, that decide it


class PhaseComparison(Struct, frozen=True, kw_only=True):
    """The seconds of one phase, as the run has them and as they are modelled."""

    phase: Phase
    observed_seconds: MaybeSeconds
    modelled: Interval | None

    @property
    def modelled_seconds(self) -> MaybeSeconds:
        """Modelled seconds."""
        return None if self.modelled is None else self.modelled.seconds

    @property
    def modelled_interval_s(
        self,
    ) -> Annotated[tuple[float, float] | None, Meta(description="the least and the most modelled seconds")]:
        """The interval of the modelled seconds."""
        return None if self.modelled is None else (self.modelled.low_s, self.modelled.high_s)


class MemoryComparison(PeakMemory, frozen=True, kw_only=True):
    """What the allocator of the trainer's process handed out at most, the counted engine included."""

    modelled_bytes: Bytes
    modelled_high_bytes: Annotated[int, Meta(description="bytes, with the upper end of every term")]
    modelled_reserved_bytes: Annotated[
        tuple[int, int], Meta(description="the least and the most bytes that the allocator may hold")
    ]


class PeakComparison(PhasePeak, frozen=True, kw_only=True):
    """Bytes of one phase on the rank that took most; modelled ones are None of a phase without a model."""

    modelled_bytes: Annotated[int | None, Meta(description="bytes; null where the model has no such phase")]
    modelled_high_bytes: Annotated[int | None, Meta(description="bytes, with the upper end of every term")]
    modelled_reserved_bytes: Annotated[
        tuple[int, int] | None, Meta(description="the least and the most bytes that it may hold")
    ]
    modelled_card_bytes: Annotated[
        int | None,
        Meta(description="bytes of everything on the card when the phase ends, without freed blocks"),
    ]
    modelled_card_high_bytes: Annotated[
        int | None,
        Meta(description="bytes, with the upper end of every term and freed blocks that PyTorch keeps"),
    ]

    modelled_kept_as_expected: Annotated[int | None, UNPUBLISHED] = None  # None where full ones are expected

    @property
    def kept_bytes(self) -> Annotated[int, Meta(description="bytes of freed blocks that PyTorch kept")]:
        """Bytes of the card that the allocator took and has handed out to no tensor."""
        return max(0, self.reserved_bytes - self.allocated_bytes)

    @property
    def modelled_kept_bytes(
        self,
    ) -> Annotated[int | None, Meta(description="bytes of freed blocks that PyTorch may keep at most")]:
        """The most bytes of freed blocks by the model."""
        if self.modelled_kept_as_expected is not None:
            return self.modelled_kept_as_expected
        if self.modelled_reserved_bytes is None or self.modelled_bytes is None:
            return None
        return max(0, self.modelled_reserved_bytes[1] - self.modelled_bytes)


class Observations(Struct, frozen=True, kw_only=True):
    """A run beside the model of its job."""

    run: ObservedRun
    phases: tuple[PhaseComparison, ...]
    modelled_step: Interval
    memory: MemoryComparison | None
    peaks: tuple[PeakComparison, ...]
    signs: tuple[Observation, ...]


def observations(advice: Advice, run: ObservedRun) -> Observations:
    """Put what a run reported beside the model of its job.

    Args:
        advice: on the job, with the lengths of its responses as the run has them.
        run: of it.
    """
    cluster = advice.workload.cluster
    modelled = {time.phase: phase_interval(time, cluster) for time in advice.time.phases}
    reported = dict(run.seconds)
    if advice.saving is not None and Phase.SAVE_CHECKPOINT in reported:
        modelled[Phase.SAVE_CHECKPOINT] = phase_interval(advice.saving.waits, cluster)
    phases = tuple(
        PhaseComparison(phase=phase, observed_seconds=reported.get(phase), modelled=modelled.get(phase))
        for phase in Phase
        if phase in reported or phase in modelled
    )
    memory = _memory(advice, run)
    expected = expected_passes(advice.workload, counts_sequences=True) if run.peaks else {}
    peaks = tuple(_peak(advice, run, peak, expected.get(peak.phase)) for peak in run.peaks)
    return Observations(
        run=run,
        phases=phases,
        modelled_step=advice.step,
        memory=memory,
        peaks=peaks,
        signs=(
            *_of_time(run, phases),
            *_of_cache(advice, run),
            *(_of_peaks(peaks) if peaks else _of_memory(memory)),
        ),
    )


def _memory(advice: Advice, run: ObservedRun) -> MemoryComparison | None:
    if run.memory is None:
        return None
    phases, engine = advice.estimate.phases, _engine_bytes(advice, run)
    reserved = [phase.reserved_interval for phase in phases]
    return MemoryComparison(
        **asdict(run.memory),
        modelled_bytes=engine + max(phase.allocated_bytes for phase in phases),
        modelled_high_bytes=engine + max(phase.allocated_high_bytes for phase in phases),
        modelled_reserved_bytes=(
            engine + max(low for low, _ in reserved),
            engine + max(high for _, high in reserved),
        ),
    )


def _engine_bytes(advice: Advice, run: ObservedRun) -> int:
    """What the counters of the trainer's process have of a rollout engine, whether on the card or not."""
    rollout = advice.rollout
    held = rollout is not None and run.memory is not None and run.memory.holds_engine
    return rollout.weight_bytes + max(0, rollout.kv_bytes) if rollout is not None and held else 0


def _peak(advice: Advice, run: ObservedRun, peak: PhasePeak, expected: ExpectedPass | None) -> PeakComparison:
    """A peak beside its model: with the micro-batches that the run's lengths make, up to full ones."""
    phase = advice.estimate.phase(peak.phase) if expected is None else expected.estimate
    engine = _engine_bytes(advice, run)
    if phase is None:
        return PeakComparison(
            **asdict(peak),
            modelled_bytes=None,
            modelled_high_bytes=None,
            modelled_reserved_bytes=None,
            modelled_card_bytes=None,
            modelled_card_high_bytes=None,
        )
    low, high = _reserved(advice, phase)
    ended = at_end(advice, phase)
    return PeakComparison(
        **asdict(peak),
        modelled_bytes=engine + phase.allocated_bytes,
        modelled_high_bytes=engine + phase.allocated_high_bytes,
        modelled_reserved_bytes=(engine + low, engine + high),
        modelled_kept_as_expected=None if expected is None else expected.kept_bytes,
        modelled_card_bytes=ended.peak_bytes,
        modelled_card_high_bytes=min(
            ended.shown_high_bytes, max(advice.estimate.capacity_bytes, ended.interval[1])
        ),
    )


def at_end(advice: Advice, phase: PhaseEstimate) -> PhaseEstimate:
    """The phase with what is on the card when a phase ends, where a record reads the driver.

    That is the phase itself but for the weight sync of an engine that shares the card: the method that
    carries the weights ends when the KV cache is back too, and PyTorch's blocks have been given back.

    Source: verl 0.5.0 to 0.7.0 ``workers/fsdp_workers.py`` (``wake_up``), 0.7.1 to 0.9.1
    ``workers/engine_workers.py`` (``update_weights``: ``resume(tags=["kv_cache"])``).
    """
    woken = advice.estimate.phase(Phase.WAKE_UP) if phase.phase is Phase.UPDATE_WEIGHTS else None
    return phase if woken is None else woken


def _reserved(advice: Advice, phase: PhaseEstimate) -> tuple[int, int]:
    """What the allocator may hold in a phase; in the weight sync also what the update has left of it.

    Source: torch ``c10/cuda/CUDACachingAllocator.cpp`` (``resetPeakStats``: from what is held).
    """
    low, high = phase.reserved_interval
    update = advice.estimate.phase(Phase.UPDATE_ACTOR) if phase.phase is Phase.UPDATE_WEIGHTS else None
    return low, high if update is None else max(high, update.reserved_interval[1])


def _of_time(run: ObservedRun, phases: tuple[PhaseComparison, ...]) -> Iterator[Observation]:
    step = run.step_seconds
    if not step:
        return
    measured = [(one.phase, one.observed_seconds) for one in phases if one.observed_seconds is not None]
    of_step = [(phase, seconds) for phase, seconds in measured if phase is not Phase.SAVE_CHECKPOINT]
    if len(phases) > 1 and of_step:
        phase, seconds = max(of_step, key=lambda one: one[1])
        yield Observation(sign=Sign.LONGEST, value=min(1.0, seconds / step), phase=phase)
    for one in phases:
        if one.observed_seconds and one.modelled and one.observed_seconds >= _TELLING_SHARE * step:
            factor = one.observed_seconds / one.modelled.seconds
            if factor >= _SLOWER and one.observed_seconds > one.modelled.high_s:
                yield Observation(sign=Sign.SLOWER, value=factor, phase=one.phase)
    modelled = {one.phase for one in phases if one.modelled_seconds is not None}
    uncounted = (step - sum(seconds for phase, seconds in of_step if phase in modelled)) / step
    if uncounted >= _TELLING_SHARE:
        others = [(phase.value, seconds) for phase, seconds in of_step if phase not in modelled]
        ranked = sorted([*others, *run.further_seconds], key=lambda other: -other[1])
        names = tuple(name for name, seconds in ranked if seconds >= _TELLING_SHARE / 2 * step)
        yield Observation(sign=Sign.UNCOUNTED, value=uncounted, timers=names)


_CACHE_FIELDS = (("rollout", "memory_fraction"), ("rollout", "max_sequences"))


def _of_cache(advice: Advice, run: ObservedRun) -> Iterator[Observation]:
    rollout, batch = advice.rollout, advice.workload.batch
    if rollout is None:
        return
    if run.preemptions is not None and run.preemptions >= _PREEMPTED:
        yield Observation(sign=Sign.PREEMPTING, value=run.preemptions, fields=_CACHE_FIELDS)
    elif rollout.kv_tokens > 0 and run.mean_response_tokens is not None:
        filled = rollout.running_sequences * batch.mean_sequence_tokens / rollout.kv_tokens
        if filled < _IDLE_SHARE:
            yield Observation(sign=Sign.CACHE_IDLE, value=filled, fields=_CACHE_FIELDS)
    if run.clip_ratio is not None and run.clip_ratio >= _CUT_SHARE:
        yield Observation(
            sign=Sign.CUT_RESPONSES, value=run.clip_ratio, fields=(("batch", "max_response_tokens"),)
        )


def _of_peaks(peaks: tuple[PeakComparison, ...]) -> Iterator[Observation]:
    """The phases beyond their upper end, and the one that decides what fits where it stays far below."""
    for one in peaks:
        if one.modelled_bytes and one.allocated_bytes > _MORE * (one.modelled_high_bytes or 0):
            factor = one.allocated_bytes / one.modelled_bytes
            yield Observation(sign=Sign.MORE_MEMORY, value=factor, phase=one.phase)
    highest = max(peaks, key=lambda one: one.modelled_bytes or 0)
    if highest.modelled_bytes and highest.allocated_bytes < _LESS * highest.modelled_bytes:
        share = highest.allocated_bytes / highest.modelled_bytes
        yield Observation(sign=Sign.LESS_MEMORY, value=share, phase=highest.phase)


def _of_memory(memory: MemoryComparison | None) -> Iterator[Observation]:
    if memory is not None and memory.allocated_bytes > _MORE * memory.modelled_high_bytes:
        yield Observation(sign=Sign.MORE_MEMORY, value=memory.allocated_bytes / memory.modelled_bytes)
