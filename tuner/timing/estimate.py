"""Seconds per phase of one step."""

from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache

from msgspec import Struct
from msgspec.structs import replace

from tuner.field_marks import Seconds
from tuner.hardware import Cluster, MeasuredGpu
from tuner.timing import fsdp
from tuner.timing.corrections import OperatorFamily, correction
from tuner.timing.decode import RolloutInput
from tuner.timing.dispatch import dispatch_seconds, request_seconds, response_seconds
from tuner.timing.freed import freed_bytes, taken_seconds
from tuner.timing.generation.rollout import EngineHost, rollout_seconds, waiting_for
from tuner.timing.job import Parts, TimedPasses, layer_compute
from tuner.timing.judging import JudgeInput, judges, judging_parts
from tuner.timing.records import record_seconds
from tuner.timing.sleeping import falling_asleep_parts, gives_pages_back
from tuner.timing.spreads import EIGHT_OF_TEN, SpreadFamily
from tuner.timing.transfers import optimizer_parts, state_transfer_parts
from tuner.timing.unknowns import SecondsRange, ranges_of
from tuner.timing.weight_sync import sync_parts
from tuner.workload import Backend, Batch, Checkpointing, Phase, Workload


class PhaseTime(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """One phase and what its seconds are spent on (compute, communication, ...).

    Equal are those that take the same seconds for the same causes, whichever pass is behind them.
    """

    phase: Phase
    seconds: Seconds
    parts: tuple[tuple[str, float], ...]
    job: TimedPasses | None = None  # of a pass of the trainer, whose kernels a host launches
    engine: EngineHost | None = None  # of a rollout, whose steps a host prepares
    ranges: tuple[SecondsRange, ...] = ()  # for what nobody says of the job

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PhaseTime):
            return NotImplemented
        return (self.phase, self.seconds, self.parts) == (other.phase, other.seconds, other.parts)

    def __hash__(self) -> int:
        return hash((self.phase, self.seconds, self.parts))

    @cached_property
    def freed_bytes(self) -> float:
        """Bytes that PyTorch's allocator keeps free on one GPU behind it; 0 unless it is an update."""
        return 0.0 if self.job is None or not self.job.trains else freed_bytes(self.job)

    def beside_host(self, times: float, preparing: float = 1.0) -> float:
        """Seconds beside another host, which may wait for the GPU, or the GPU for it.

        What hides one second of the host does not hide two.

        Args:
            times: as long as typical that it takes to launch kernels.
            preparing: the same of preparing the steps of a rollout engine.
        """
        # A phase is part of many steps.
        seconds_by_host: dict[tuple[float, float], float] = vars(self).setdefault("by_host", {})
        seconds = seconds_by_host.get((times, preparing))
        if seconds is None:
            seconds = seconds_by_host[times, preparing] = self._beside_host(times, preparing)
        return seconds

    def _beside_host(self, times: float, preparing: float) -> float:
        if self.job is not None:
            return sum(_parts_of_pass(self.job.on_cluster(_beside_host(self.job.cluster, times))).values())
        if self.engine is not None:
            typical = waiting_for(self.engine, 1.0, 1.0)
            return self.seconds + waiting_for(self.engine, times, preparing) - typical
        return self.seconds


def _beside_host(cluster: Cluster, times: float) -> Cluster:
    gpu = cluster.gpu
    figures = gpu.measured or MeasuredGpu(date="", versions=())
    other = replace(figures, host_factor=correction(gpu, OperatorFamily.HOST) / times)
    return replace(cluster, gpu=replace(gpu, measured=other))


class StepTime(Struct, frozen=True, kw_only=True, dict=True):
    """Modelled seconds of one step; good for comparing two workloads, not for a clock."""

    phases: tuple[PhaseTime, ...]
    apart: bool = False  # responses come from GPUs of their own while the others train on the last ones

    @cached_property
    def seconds(self) -> float:
        """The whole step: phases run one after the other, but for those that run beside others."""
        return sum([phase.seconds for phase in self.deciding_phases])

    @cached_property
    def deciding_phases(self) -> tuple[PhaseTime, ...]:
        """The phases that a step waits for: all of them, or those of its longer side and the new weights."""
        return max(self.sides, key=lambda side: sum([phase.seconds for phase in side]))

    @cached_property
    def sides(self) -> tuple[tuple[PhaseTime, ...], ...]:
        """The phases that run one after the other; where generation is apart, its side and that of training.

        New weights interrupt both. Responses are then judged beside training as well.
        """
        if not self.apart:
            return (self.phases,)
        generating = (Phase.ROLLOUT, Phase.REWARD, Phase.UPDATE_WEIGHTS)
        return (
            tuple(phase for phase in self.phases if phase.phase in generating),
            tuple(phase for phase in self.phases if phase.phase not in generating[:2]),
        )

    def phase(self, phase: Phase) -> PhaseTime | None:
        """The time of one phase, None when the step does not have it."""
        return next((time for time in self.phases if time.phase is phase), None)


def step_time(workload: Workload, *, concurrent_sequences: int = 0) -> StepTime:
    """Roofline seconds of every phase that the step has, in order.

    Counted work over datasheet rates times stated shares (:mod:`tuner.timing.assumptions`), for
    sequences of mean length. Not counted: rewards by rules, advantages, validation, and the slack between
    phases. Checkpoints and validation stand apart, in :mod:`tuner.timing.saving` and
    :mod:`tuner.timing.validating`.

    Args:
        workload: the job.
        concurrent_sequences: sequences with the room planned for them that the KV cache of one rollout
            replica holds; of a job that generates nothing it is not asked.
    """
    apart = workload.rollout is not None and not workload.rollout.colocated
    return StepTime(phases=tuple(_phases(workload, concurrent_sequences)), apart=apart)


def _phases(workload: Workload, concurrent_sequences: int) -> Iterator[PhaseTime]:
    if workload.unmodelled_engine:
        return  # a step without the passes of its trainer is none
    generates = workload.rollout is not None
    sends = False  # where the model that is trained generates, nothing falls asleep or is sent
    if generates:
        inputs = RolloutInput.of(workload)
        generated, sends = rollout_time(inputs, concurrent_sequences), inputs.trained is None
        yield _falling_asleep(generated, workload) if sends else generated
    if workload.services and (judge := judges(workload)) is not None:
        yield _judging_time(judge)
    if workload.validates_only:
        return  # the weights reach the engine once, whatever is validated
    freed, pages = 0.0, sends and gives_pages_back(workload)
    for step_pass in workload.passes():
        there = freed if pages and step_pass.training else None
        time = _pass_time(
            TimedPasses(
                cluster=workload.cluster, batch=workload.batch, step_pass=step_pass, pages_there=there
            )
        )
        yield time
        if sends and step_pass.training:
            freed = max(freed, time.freed_bytes)
    if sends:
        yield _sync_time(workload.at_rest, freed)


def seconds_of_passes(workload: Workload) -> float:
    """Seconds of the policy's and the critic's passes: a step takes no less, wherever responses come from."""
    jobs = (
        TimedPasses(cluster=workload.cluster, batch=workload.batch, step_pass=step_pass)
        for step_pass in workload.passes()
        if step_pass.phase is not Phase.REWARD
    )
    return sum([_pass_time(job).seconds for job in jobs])


@lru_cache(maxsize=512)
def rollout_time(inputs: RolloutInput, concurrent_sequences: int) -> PhaseTime:
    """Generation, with what the trainer does around it, where its engines' caches hold so many sequences."""
    if inputs.trained is not None:
        return _by_trainer(inputs)

    def parts_of(batch: Batch) -> tuple[Parts, EngineHost]:
        job = replace(inputs, batch=batch)
        rollout = rollout_seconds(job, concurrent_sequences=concurrent_sequences)
        parts, returned = rollout.parts, response_seconds(job)
        if returned:
            parts |= {"dispatch": returned}
        if job.agents:
            parts |= {"requests": request_seconds(job)}
        if job.poll_s:  # the last response ends anywhere between two looks
            parts |= {"polling": job.poll_s / 2}
        return parts, rollout.host

    parts, host = parts_of(inputs.batch)
    time = _with_ranges(_phase_time(Phase.ROLLOUT, parts), inputs.batch, lambda batch: parts_of(batch)[0])
    return replace(time, engine=host)


def _by_trainer(inputs: RolloutInput) -> PhaseTime:
    """Generation by the model that is trained."""
    from tuner.timing.generation.by_trainer import generation_parts  # few jobs do

    def parts_of(batch: Batch) -> Parts:
        return generation_parts(replace(inputs, batch=batch))

    return _with_ranges(_phase_time(Phase.ROLLOUT, parts_of(inputs.batch)), inputs.batch, parts_of)


def _with_ranges(time: PhaseTime, batch: Batch, parts_of: Callable[[Batch], Parts]) -> PhaseTime:
    """A phase with what its seconds hang on that nobody says."""
    ranges = ranges_of(batch, time.seconds, lambda other: sum(parts_of(other).values()))
    return replace(time, ranges=ranges) if ranges else time


def _falling_asleep(generated: PhaseTime, workload: Workload) -> PhaseTime:
    """Generation with the engine's falling asleep at its end, as often as new weights wake it up."""
    filtered = workload.batch.group_filter
    times = workload.batch.filter_rounds if filtered is not None and filtered.sends_weights else 1
    asleep = {cause: times * seconds for cause, seconds in falling_asleep_parts(workload).items()}
    if not asleep:
        return generated
    parts = (*generated.parts, *asleep.items())
    return replace(generated, seconds=generated.seconds + sum(asleep.values()), parts=parts)


@lru_cache(maxsize=64)
def _judging_time(inputs: JudgeInput) -> PhaseTime:
    time = _phase_time(Phase.REWARD, judging_parts(inputs))
    return _with_ranges(time, inputs.batch, lambda batch: judging_parts(replace(inputs, batch=batch)))


@lru_cache(maxsize=512)  # many proposals change passes alone
def _sync_time(workload: Workload, freed: float) -> PhaseTime:
    """Handing over new weights, before every round where that is how a trainer generates."""
    once, filtered = sync_parts(workload, freed), workload.batch.group_filter

    def parts_of(batch: Batch) -> Parts:
        return {name: batch.filter_rounds * seconds for name, seconds in once.items()}

    if filtered is None or not filtered.sends_weights:
        return _phase_time(Phase.UPDATE_WEIGHTS, once)
    time = _phase_time(Phase.UPDATE_WEIGHTS, parts_of(workload.batch))
    return _with_ranges(time, workload.batch, parts_of)


@lru_cache(maxsize=4096)  # a proposal leaves most passes as they are, and so does another placement
def _pass_time(job: TimedPasses) -> PhaseTime:
    """A pass with what its seconds hang on that nobody says.

    Attention goes by the squares of lengths, and ranks wait for the one with the longest responses.
    """

    def parts_of(batch: Batch) -> Parts:
        other = TimedPasses(
            cluster=job.cluster, batch=batch, step_pass=job.step_pass, pages_there=job.pages_there
        )
        vars(other).update(layer=job.layer)
        return _parts_of_pass(other)

    time = _with_ranges(_phase_time(job.step_pass.phase, _parts_of_pass(job), job), job.batch, parts_of)
    if not job.masks_rows:
        return time
    return replace(time, ranges=(*time.ranges, _range_of_masks(job, time.seconds)))


def _range_of_masks(job: TimedPasses, seconds: float) -> SecondsRange:
    """What the rate of attention with a mask and its kernel leave open, in both directions at once."""
    kernel = job.mask_kernel
    slow, fast = (
        sum(_parts_of_pass(job.computing(layer_compute(job, replace(kernel, typical=shares)))).values())
        - seconds
        for shares in (kernel.slowest, kernel.fastest)
    )
    return SecondsRange(
        family=SpreadFamily.MASKED,
        low_s=EIGHT_OF_TEN * min(0.0, fast),
        high_s=EIGHT_OF_TEN * max(0.0, slow),
    )


def _parts_of_pass(job: TimedPasses) -> Parts:
    if not job.trains:
        return _forward(job)
    share = job.recomputed_share
    return _update(job) if share is None else _mixed(job, share)


def _mixed(job: TimedPasses, share: float) -> Parts:
    """An update that recomputes a share of its layers: between one that does all and one that does none."""
    full = _update(job.recomputing(Checkpointing.FULL))
    none = _update(job.recomputing(Checkpointing.NONE))
    names = dict.fromkeys((*full, *none))
    return {name: share * full.get(name, 0.0) + (1 - share) * none.get(name, 0.0) for name in names}


def _phase_time(phase: Phase, parts: Parts, job: TimedPasses | None = None) -> PhaseTime:
    return PhaseTime(phase=phase, seconds=sum(parts.values()), parts=tuple(parts.items()), job=job)


def _pass_parts(job: TimedPasses) -> dict[str, float]:
    if job.engine.backend is not Backend.MEGATRON:
        parts = dict(fsdp.pass_parts(job))
        return parts if job.batch.images is None else parts | _seeing(job)
    from tuner.timing import megatron  # most jobs have none of it

    return megatron.pass_parts(job)


def _seeing(job: TimedPasses) -> dict[str, float]:
    """The vision tower in a pass, which lies before and behind the decoder's."""
    from tuner.timing.vision import tower_seconds  # few jobs have images

    return {"images": tower_seconds(job)}


def _forward(job: TimedPasses) -> Parts:
    """One forward pass over all sequences, with the weights fetched and put away."""
    states = state_transfer_parts(job.model, job.engine, job.cluster.gpu, trains=False)
    parts = {**_pass_parts(job), **states, **_way_of_batch(job, mini_batches=1)}
    times = job.step_pass.settings.epochs or 1  # of which a copy's own loop may make more than one
    return parts if times == 1 else {cause: times * seconds for cause, seconds in parts.items()}


def _way_of_batch(job: TimedPasses, *, mini_batches: int) -> dict[str, float]:
    """What a phase's batch takes between the driver, or a store, and the kernels."""
    parts = {"dispatch": dispatch_seconds(job)}
    records = record_seconds(job, mini_batches=mini_batches)
    return parts | {"records": records} if records else parts


def _update(job: TimedPasses) -> Parts:
    """Forward, backward and optimizer step for every mini-batch of every epoch.

    Offloaded states are fetched before the first mini-batch and put away after the last.
    """
    batch, gpu = job.batch, job.cluster.gpu
    steps = job.step_pass.optimizer_steps(batch)
    mini_batch = _pass_parts(job) | optimizer_parts(job.model, job.engine, gpu)
    parts = {name: steps * seconds for name, seconds in mini_batch.items()}
    parts |= state_transfer_parts(job.model, job.engine, gpu, trains=True)
    if job.pages_there is not None:
        parts["taken_pages"] = taken_seconds(job, job.pages_there)
    return parts | _way_of_batch(job, mini_batches=steps)
