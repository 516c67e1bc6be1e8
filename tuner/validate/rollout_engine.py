"""vLLM itself, where it is installed: how many blocks it makes on this card, and how fast it generates."""

from tuner.timing.tokens import mean_prompt_tokens
from tuner.validate.report import Measurement
from tuner.validate.rollout_judged import SEQUENCES_TOLERANCE
from tuner.validate.rollout_plan import PlannedRollout
from tuner.validate.rollout_settings import EngineFigures, EngineWork
from tuner.validate.session import Failed, OutOfBudgetError, Session
from tuner.workload import RolloutEngine

WORKER = "tuner.validate.workers.rollout_engine:measure"
_ENGINE_S = 90.0  # it loads, compiles, profiles itself and captures graphs
_MOST_SEQUENCES, _RESPONSE_TOKENS = 64, 64
_OF_THE_ENGINE = ("engine_graphs", "engine_process")


def engine_work(session: Session, planned: PlannedRollout) -> EngineWork | None:
    """What vLLM is started with; None where it is not here, or cannot be held to what we may use."""
    rollout, workload = planned.workload.rollout, planned.workload
    here = "vllm" in session.machine.versions and session.options.device == "cuda"
    if not here or rollout.engine is not RolloutEngine.VLLM:
        return None
    if rollout.replica_gpus > 1 or planned.limited:
        session.note("Rollout: vLLM was not started, for want of GPUs or because the GPU is not all ours.")
        return None
    arguments: dict[str, object] = {
        "gpu_memory_utilization": rollout.memory_fraction,
        "max_num_seqs": rollout.max_sequences,
        "max_num_batched_tokens": rollout.max_batched_tokens,
        "enforce_eager": not rollout.cuda_graphs,
        "enable_chunked_prefill": rollout.chunked_prefill,
        "enable_prefix_caching": rollout.prefix_caching,
        "max_model_len": rollout.max_model_tokens,
    }
    return EngineWork(
        config=session.subject.model_config,
        residents=tuple((name, size) for name, size in planned.residents if name not in _OF_THE_ENGINE),
        arguments={name: value for name, value in arguments.items() if value is not None},
        sequences=max(1, min(_MOST_SEQUENCES, planned.predicted.running_sequences)),
        prompt_tokens=max(1, int(mean_prompt_tokens(workload.batch))),
        response_tokens=_RESPONSE_TOKENS,
    )


def run_engine(session: Session, planned: PlannedRollout) -> None:
    """Start vLLM where it is installed, and compare its blocks with the prediction."""
    work = engine_work(session, planned)
    if work is None:
        return
    try:
        found = session.call(WORKER, work, title="rollout: vLLM's own engine", expected_s=_ENGINE_S)
    except OutOfBudgetError as reason:
        session.note(f"Rollout: vLLM was not started: {reason}.")
        return
    if isinstance(found, Failed):
        session.note(f"Rollout: vLLM's engine gave no figures: {found.message}.")
        return
    assert isinstance(found, EngineFigures)
    predicted = planned.predicted_blocks * planned.wanted.block_tokens
    session.add(
        Measurement(
            name="rollout.engine_cache",
            what="tokens that the KV cache of vLLM's own engine holds",
            unit="tokens",
            measured=found.blocks * found.block_tokens,
            predicted=predicted,
            low=(1 - SEQUENCES_TOLERANCE) * predicted,
            high=(1 + SEQUENCES_TOLERANCE) * predicted,
            details={
                "blocks": found.blocks,
                "block_tokens": found.block_tokens,
                "version": session.machine.versions["vllm"],
                "counted_on_version": planned.workload.rollout.engine_version,
            },
        )
    )
    session.add(
        Measurement(
            name="rollout.engine_speed",
            what="tokens that vLLM's own engine generates, prompts read as well",
            unit="tokens/s",
            measured=found.tokens_per_s,
            details={"sequences": work.sequences, "response_tokens": work.response_tokens},
        )
    )
