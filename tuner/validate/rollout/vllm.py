"""vLLM itself, where it is installed: the blocks that it makes on this card, and how fast it generates.

It is started as configured, with each recommendation that changes the rollout, and as configured again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec

from tuner.advise import Recommendation
from tuner.dtypes import DType
from tuner.language import _
from tuner.validate.children.call import Failed
from tuner.validate.children.servers import ServedFunction
from tuner.validate.rollout.plan import PlannedRollout, planned_rollout
from tuner.validate.rollout.settings import EngineWork, VllmFigures
from tuner.validate.rollout.verdicts import changing
from tuner.validate.rollout.vllm_verdicts import engine_measurements, judge_engine
from tuner.validate.session import OutOfBudgetError, Session
from tuner.workload import RolloutEngine, Workload

WORKER = ServedFunction.in_package(__package__, "worker.vllm", "measure")
ENGINE_S = 80.0  # it is imported, makes weights, compiles, profiles itself and captures graphs
_MOST_SEQUENCES, _STEPS, _REPETITIONS = 1024, 128, 5
_OF_THE_ENGINE = ("engine_graphs", "engine_process", "engine_buffers")


def title(how: str) -> str:
    """What the progress shows of a start."""
    return _("rollout: vLLM's own engine {how}").format(how=how)


def run_engine(session: Session, configured: PlannedRollout) -> None:
    """Start vLLM where it is installed, compare it with the prediction, judge what changes it.

    What is configured runs first and last, so that a difference between two starts of the same is not taken
    for one that a recommendation makes.
    """
    if not _is_ours(session, configured):
        return
    starts = [_started(session, configured, _("as configured"), of_host=True)]
    if starts[0] is None:
        return
    changed: list[tuple[Recommendation, PlannedRollout, VllmFigures]] = []
    try:
        for recommendation, proposal, _changed in changing(session.subject):
            planned = planned_rollout(proposal, session.machine, session.options)
            if not _has_its_gpus(session, planned):
                continue
            after = _started(session, planned, _("with {rule}").format(rule=recommendation.finding.rule.name))
            if after is not None:
                changed.append((recommendation, planned, after))
        if changed:
            starts.append(_started(session, configured, _("as configured, once more")))
    finally:  # interrupted, what there is by then counts
        before = _of_all([start for start in starts if start is not None])
        for measurement in engine_measurements(configured, before):
            session.add(measurement)
        for recommendation, planned, after in changed:
            session.judge(judge_engine(recommendation, (configured, before), (planned, after)))


def _of_all(starts: Sequence[VllmFigures]) -> VllmFigures:
    """The first start, with the steps of all; of the bytes the most."""
    return replace(
        starts[0],
        used_bytes=max(start.used_bytes for start in starts),
        step_seconds=tuple(seconds for start in starts for seconds in start.step_seconds),
        starts=len(starts),
    )


def _is_ours(session: Session, configured: PlannedRollout) -> bool:
    """Whether vLLM is here, and the whole GPU for it."""
    rollout = configured.workload.generator
    here = "vllm" in session.machine.versions and session.options.device == "cuda"
    if not here or rollout.engine is not RolloutEngine.VLLM:
        return False
    if rollout.weight_dtype is DType.FLOAT8:
        session.note(
            _("Rollout: vLLM was not started: its weights are quantised as they arrive from the trainer.")
        )
        return False
    if not _has_its_gpus(session, configured) or configured.limited:
        session.note(_("Rollout: vLLM was not started, for want of GPUs or because the GPU is not all ours."))
        return False
    return True


def _has_its_gpus(session: Session, planned: PlannedRollout) -> bool:
    """Whether the GPUs of an engine are here; one of several stages or ranks of data is not started."""
    rollout = planned.workload.generator
    return rollout.replica_gpus == rollout.tensor_parallel <= session.options.processes


def reason_not_started(engine: RolloutEngine, device: str) -> str | None:
    """Why no engine of this kind can be started here; None where one can be."""
    if engine is not RolloutEngine.VLLM:
        return _("{engine} is not started here, so its seconds stay as modelled").format(engine=engine.value)
    if device != "cuda":
        return _("vLLM is not started without a GPU, so its seconds stay as modelled")
    if find_spec("vllm") is None:
        return _("vLLM is not installed here, so its seconds stay as modelled")
    return None


def _started(
    session: Session, planned: PlannedRollout, how: str, *, of_host: bool = False
) -> VllmFigures | None:
    """What vLLM says of itself; None where there was no time or it failed, which is said."""
    work = engine_work(session, planned)
    if of_host:
        work = replace(work, fewer=work.sequences // 2)
    try:
        figures = session.call(WORKER, work, title=title(how), expected_s=ENGINE_S)
    except OutOfBudgetError as reason:
        session.note(_("Rollout: vLLM was not started {how}: {reason}.").format(how=how, reason=reason))
        return None
    if isinstance(figures, Failed):
        session.note(
            _("Rollout: vLLM's engine gave no figures {how}: {figures}.").format(
                how=how, figures=figures.message
            )
        )
        return None
    assert isinstance(figures, VllmFigures)
    return figures


def engine_work(session: Session, planned: PlannedRollout) -> EngineWork:
    """What vLLM is started with, as verl starts it, and what it decodes: sequences of mean length."""
    workload, longest = planned.workload, planned.longest_tokens
    mean = workload.batch.mean_prompt_tokens + workload.batch.mean_response_tokens / 2
    steps = min(_STEPS, longest // 2)
    return EngineWork(
        config=session.subject.model_config,
        residents=tuple((name, size) for name, size in planned.residents if name not in _OF_THE_ENGINE),
        arguments=dict(_arguments(workload)),
        sequences=max(1, min(_MOST_SEQUENCES, planned.predicted.running_sequences)),
        context_tokens=max(1, min(int(mean), longest - steps - 1)),
        steps=steps,
        repetitions=_REPETITIONS,
        gpus=workload.generator.tensor_parallel,
    )


def _arguments(workload: Workload) -> Iterator[tuple[str, object]]:
    rollout = workload.generator
    yield "dtype", rollout.weight_dtype.value
    yield "gpu_memory_utilization", rollout.memory_fraction
    yield "max_num_seqs", rollout.max_sequences
    yield "max_num_batched_tokens", rollout.step_tokens
    yield "enforce_eager", not rollout.cuda_graphs
    yield "enable_chunked_prefill", rollout.chunked_prefill
    yield "enable_prefix_caching", rollout.prefix_caching
    if rollout.tensor_parallel > 1:
        yield "tensor_parallel_size", rollout.tensor_parallel
    yield "disable_log_stats", not rollout.log_stats
    yield "enable_sleep_mode", rollout.frees_memory
    yield "logprobs_mode", "processed_logprobs"  # verl's default: a tensor more of all logits
    if rollout.max_model_tokens is not None:
        yield "max_model_len", rollout.max_model_tokens
    if rollout.capture_sizes is not None:
        yield "compilation_config", {"cudagraph_capture_sizes": list(rollout.capture_sizes)}
    if rollout.kv_dtype is DType.FLOAT8:
        yield "kv_cache_dtype", "fp8"
