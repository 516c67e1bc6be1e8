"""What the metrics of verl's steps say of a job.

Sources: verl ``trainer/ppo/metric_utils.py`` (``compute_data_metrics``, ``compute_timing_metrics``),
``trainer/ppo/ray_trainer.py`` and ``trainer/ppo/v1/trainer_base.py`` (timers), ``experimental/agent_loop``.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from tuner.inputs.log.metrics import StepMetrics
from tuner.language import N_
from tuner.trainers.verl.observed_steps import highest_of, mean_of, median_of, warm_steps
from tuner.trainers.verl.releases import reaches
from tuner.units import GIB
from tuner.versions import at_least
from tuner.workload import Batch, Phase, RolloutEngine, Workload
from tuner.workload.observed_run import ObservedRun, PeakMemory

_TIMER = "timing_s/"
_OLD_TIMER = "timing/"  # before 0.3
_GENERATION, _WHOLE_STEP = "gen", "step"
_SYNC_WITHIN_GENERATION = "reshard"  # up to 0.6 new weights are handed over within the timer of generation
_SYNC = "update_weights"
_SYNC_TIMED_SINCE = "0.7.1"  # 0.7.0 has neither timer, and hands them over as generation begins
_PHASES = {
    _GENERATION: Phase.ROLLOUT,
    "reward": Phase.REWARD,
    "old_log_prob": Phase.OLD_LOG_PROB,
    "ref": Phase.REF_LOG_PROB,
    "values": Phase.VALUES,
    "update_critic": Phase.UPDATE_CRITIC,
    "update_actor": Phase.UPDATE_ACTOR,
    "save_checkpoint": Phase.SAVE_CHECKPOINT,
    _SYNC: Phase.UPDATE_WEIGHTS,
    _SYNC_WITHIN_GENERATION: Phase.UPDATE_WEIGHTS,
}
_WITHIN_OTHERS = ("agent_loop/", "generate_sequences", "generation_timing", "slowest")  # parts of generation
_LEAST_SECONDS = 0.05
_FILTER = "training/filter_groups"  # of the V1 trainer
#: ``num_turns`` counts the prompt, what the model wrote and what was answered: each turn of the model has a
#: message before it. Source: 0.5.0 and 0.9.1 ``experimental/agent_loop/tool_agent_loop.py``.
_MESSAGES_OF_A_TURN = 2


class _MemoryMetric(Struct, frozen=True, kw_only=True):
    """What ``perf/max_memory_allocated_gb`` of a release is, and of the ones up to the next row.

    No release resets the counters (``reset_peak_memory_stats`` is called by the memory profiler alone): the
    metric is the highest since the process began, of all phases before it, the start among them.
    """

    since: str
    taken: str
    source: str


_MEMORY_METRICS = (
    _MemoryMetric(
        since="0.8.0",
        taken=N_("at the end of each pass over the actor, the highest of all ranks"),
        source="0.8.0 workers/engine_workers.py (_postprocess_output); the name begins with actor/",
    ),
    _MemoryMetric(
        since="0.6.0",
        taken=N_("at the end of the actor's update, the highest of all ranks"),
        source="0.6.0 workers/fsdp_workers.py (update_actor), protocol.py (concat), utils/metric/utils.py "
        "(reduce_metrics); not by the new workers of 0.7, which left it out",
    ),
    _MemoryMetric(
        since="0",
        taken=N_("at the end of the actor's update, of the first rank"),
        source="0.3.0.post1 workers/fsdp_workers.py (update_actor), protocol.py (concat: meta_info of the "
        "first); 0.5.0 workers/megatron_workers.py",
    ),
)
_POOLED_SINCE = "0.7.0"  # vLLM, whose sleep mode unmaps a pool that torch goes on counting as allocated


def observed_steps(steps: Sequence[StepMetrics], workload: Workload) -> ObservedRun | None:
    """What the steps of a run report; None where no step tells a time, a length or memory.

    Args:
        steps: with their metrics, in order.
        workload: the job as the release reads it.
    """
    if workload.rollout is None:
        from tuner.trainers.verl.observed_fine_tuning import observed_fine_tuning  # few jobs are of it

        return observed_fine_tuning(steps, workload)
    names = (_TIMER, _OLD_TIMER, "response_length/")
    telling = [_renamed(step) for step in steps if any(name.startswith(names) for name in step.values)]
    warm = warm_steps(telling)
    if not warm:
        return None
    seconds, further = _seconds(warm)
    host = highest_of(telling, "perf/cpu_memory_used_gb")
    messages = median_of(warm, "num_turns/mean")
    preemptions = median_of(warm, f"{_TIMER}agent_loop/num_preempted/mean")
    return ObservedRun(
        first_step=warm[0].step,
        last_step=warm[-1].step,
        steps=len(warm),
        seconds=seconds,
        holds_sync=_holds_sync(dict(seconds), workload),
        further_seconds=further,
        step_seconds=median_of(warm, f"{_TIMER}{_WHOLE_STEP}", "perf/time_per_step"),
        mean_prompt_tokens=median_of(warm, "prompt_length/mean"),
        mean_response_tokens=median_of(warm, "response_length/mean"),
        longest_response_tokens=median_of(warm, "response_length/max"),
        clip_ratio=median_of(warm, "response_length/clip_ratio"),
        tool_seconds=median_of(warm, f"{_TIMER}agent_loop/slowest/tool_calls"),
        generation_rounds=mean_of(warm, "train/num_gen_batches"),
        kept_groups=_kept_groups(warm, workload.batch),
        turns=None if messages is None else messages / _MESSAGES_OF_A_TURN,
        preemptions=None if preemptions is None or preemptions < 0 else preemptions,  # -1: not available
        memory=_memory(telling, workload),
        host_bytes=None if host is None else round(host * GIB),
    )


def _kept_groups(steps: Sequence[StepMetrics], batch: Batch) -> float | None:
    """The share of groups that the V1 trainer's filter kept; None where it says of none that it dropped.

    What it counts as samples are groups. Those that it kept beyond a step's are thrown away.

    Source: verl 0.9.1 ``trainer/ppo/v1/replay_buffer.py`` (``_evict_terminal_groups``, ``sample``).
    """
    filtered = batch.group_filter
    if filtered is None or filtered.round_prompts is not None:
        return None
    dropped = sum(step.values.get(f"{_FILTER}/evicted_samples", 0.0) for step in steps)
    beyond = sum(step.values.get(f"{_FILTER}/discarded_surplus_samples", 0.0) for step in steps)
    kept = len(steps) * batch.prompts + beyond
    return kept / (kept + dropped) if dropped else None


def _renamed(step: StepMetrics) -> StepMetrics:
    """The metrics of a step with the names that they have since 0.3."""
    values = {
        _TIMER + name.removeprefix(_OLD_TIMER) if name.startswith(_OLD_TIMER) else name: value
        for name, value in step.values.items()
    }
    return StepMetrics(step=step.step, values=values)


def holds_engine(workload: Workload) -> bool:
    """Whether the allocator of the trainer's process goes on counting a rollout engine that sleeps.

    Up to 0.7.0 the workers of vLLM are the trainer's processes. Their weights and cache lie in a pool of
    PyTorch's own allocator; asleep, its memory is given back to the card, and stays "allocated" in the
    counters. So the metric may exceed the card. SGLang, and vLLM since 0.7.1, run in processes of their own.

    Source: vLLM ``device_allocator/cumem.py`` (``use_memory_pool_with_allocator``, ``sleep``), verl 0.7.0
    ``workers/rollout/vllm_rollout/vllm_async_server.py`` (``ExternalZeroMQDistributedExecutor``).
    """
    rollout = workload.rollout
    if rollout is None:
        return False
    pooled = rollout.engine is RolloutEngine.VLLM and at_least(rollout.engine_version, _POOLED_SINCE)
    return pooled and rollout.colocated and not rollout.own_process


def _holds_sync(seconds: Mapping[Phase, float], workload: Workload) -> bool:
    """Whether generation is timed together with the handing over of new weights, which nothing tells apart.

    Source: verl 0.3.0 ``workers/fsdp_workers.py`` (``generate_sequences`` enters the sharding manager), 0.7.0
    ``trainer/ppo/ray_trainer.py`` (no timer beside ``gen``), 0.7.1 there (``update_weights``).
    """
    timed_apart = Phase.UPDATE_WEIGHTS in seconds or reaches(workload.release.version, _SYNC_TIMED_SINCE)
    colocated = workload.rollout is not None and workload.rollout.colocated
    return Phase.ROLLOUT in seconds and colocated and not timed_apart


def _memory(steps: Sequence[StepMetrics], workload: Workload) -> PeakMemory | None:
    allocated = highest_of(steps, "perf/max_memory_allocated_gb", "actor/perf/max_memory_allocated_gb")
    if allocated is None:
        return None
    reserved = highest_of(steps, "perf/max_memory_reserved_gb", "actor/perf/max_memory_reserved_gb")
    version = workload.release.version
    return PeakMemory(
        allocated_bytes=round(allocated * GIB),
        reserved_bytes=None if reserved is None else round(reserved * GIB),
        holds_engine=holds_engine(workload),
        taken=next(row.taken for row in _MEMORY_METRICS if row.since == "0" or reaches(version, row.since)),
    )


def _seconds(
    steps: Sequence[StepMetrics],
) -> tuple[tuple[tuple[Phase, float], ...], tuple[tuple[str, float], ...]]:
    """The seconds of the phases that the steps have timers for, and of all that is no phase."""
    timers = dict.fromkeys(
        name.removeprefix(_TIMER) for step in steps for name in step.values if name.startswith(_TIMER)
    )
    medians = {timer: median_of(steps, _TIMER + timer) or 0.0 for timer in timers}
    if _SYNC_WITHIN_GENERATION in medians and _GENERATION in medians:
        medians[_GENERATION] = max(0.0, medians[_GENERATION] - medians[_SYNC_WITHIN_GENERATION])
    phases = {phase: medians[timer] for timer, phase in _PHASES.items() if timer in medians}
    further = {
        timer: seconds
        for timer, seconds in medians.items()
        if timer not in _PHASES
        and timer != _WHOLE_STEP
        and seconds >= _LEAST_SECONDS
        and not timer.startswith(_WITHIN_OTHERS)
    }
    ranked = sorted(further.items(), key=lambda item: -item[1])
    return tuple((phase, phases[phase]) for phase in Phase if phase in phases), tuple(ranked)
