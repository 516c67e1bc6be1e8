"""What a release and its rollout engine do with memory, as plain facts.

Versions of vLLM have a module of their own, :mod:`tuner.trainers.verl.vllm_facts`. SGLang was read in
0.4.6, 0.5.5, 0.5.6, 0.5.8 and 0.5.12, one for each release, and they agree in what is told here.
"""

from typing import Any

from tuner.dtypes import DType
from tuner.model_shape import ModelShape
from tuner.trainers.verl.engine_versions import OLDEST_SERVED
from tuner.trainers.verl.source import Source
from tuner.trainers.verl.versions import at_least
from tuner.trainers.verl.vllm_facts import vllm_facts
from tuner.workload import Backend, Engine, FractionOf, Rollout, RolloutEngine

_TENSORRT_BLOCK = 32


def engine_facts(
    source: Source, engine: RolloutEngine, version: str, model: ModelShape, actor: Engine
) -> dict[str, Any]:
    """Fields of :class:`~tuner.workload.Rollout` that follow from engine, its version, and release."""
    if engine is RolloutEngine.SGLANG:
        return {
            "fraction_of": FractionOf.STATIC_POOL,
            "block_tokens": 1,
            "frees_windows": False,
            "state_dtype": DType.FLOAT32,
            "sleeps_with_weights": _serves_adapters(actor) and source.since("0.8.0"),
            # up to 0.5 weights and cache come back together unless told otherwise
            "staged_wake_up": source.since("0.6.0") or source.flag("rollout.multi_stage_wake_up"),
        }
    if engine is RolloutEngine.TENSORRT_LLM:
        return {
            "fraction_of": FractionOf.FREE_AFTER_WEIGHTS,
            "block_tokens": _TENSORRT_BLOCK,
            "frees_windows": False,
        }
    if engine is RolloutEngine.TRANSFORMERS:
        return {"fraction_of": FractionOf.TOTAL, "own_process": False}
    return vllm_facts(source, version, model, actor)


def sleep_facts(source: Source, engine: RolloutEngine, version: str) -> dict[str, Any]:
    """Whether the engine sleeps, and with what.

    Up to 0.4 every engine sleeps, and the switch only decides whether the cache of vLLM 0.6.3 goes with
    its weights.
    """
    copied = engine is RolloutEngine.VLLM and not at_least(version, OLDEST_SERVED)
    return {
        "frees_memory": source.flag("rollout.free_cache", default=True)
        and source.flag("rollout.sleep_mode", default=True),
        "sleeps_with_cache": copied and not source.flag("rollout.unused_free_cache", default=True),
    }


def sleep_level(source: Source, engine: RolloutEngine, version: str, actor: Engine) -> int:
    """What happens to the engine's weights while it sleeps: 1 to the host, 2 dropped.

    SGLang keeps a copy on the host since 0.9; before, only for draft models. vLLM keeps one where the
    trainer sends adapters alone, and 0.6 asks for one where experts are divided and vLLM is older than 0.11.
    """
    if engine is RolloutEngine.SGLANG:
        return 1 if source.since("0.9.0") else 2
    if engine is not RolloutEngine.VLLM:
        return 2
    if not source.since("0.6.0"):
        return 1
    if not source.since("0.7.0"):
        experts = source.integer("rollout.expert_parallel", default=1) > 1 and not at_least(version, "0.11.0")
        return 1 if experts or source.flag("rollout.layered_summon") else 2
    return 1 if _serves_adapters(actor) or source.flag("model.mtp_rollout") else 2


def sync_facts(source: Source, rollout: Rollout, actor: Engine) -> dict[str, Any]:
    """Fields of :class:`~tuner.workload.WeightSync` that follow from engine, release and strategy."""
    vllm = rollout.engine is RolloutEngine.VLLM
    fsdp = actor.backend is not Backend.MEGATRON
    copied = vllm and not at_least(rollout.engine_version, OLDEST_SERVED)
    # the model engines cast to bfloat16 until 0.9, the loaders for vLLM 0.6.3 to the engine's dtype
    casts = fsdp and (copied or (source.engine_workers and not source.since("0.9.0")))
    return {
        "sent_dtype": DType.BFLOAT16 if casts else None,
        "buckets": 2 if not rollout.colocated and source.since("0.7.0") else 1,
        # 0.7 clones each tensor out of the bucket before it loads them
        "engine_buckets": int(
            vllm and rollout.colocated and source.since("0.7.0") and not source.since("0.8.0")
        ),
        # 0.9 leaves FSDP2's offloaded shards on the host and fetches them tensor by tensor
        "stages_weights": not (
            source.since("0.9.0") and actor.backend is Backend.FSDP2 and actor.lora is None
        ),
        "offloads_first": source.since("0.6.0"),
        "loads_on_host": copied,
        "keeps_loaded": copied and fsdp,  # its branch of verl 0.4's sharding manager forgets to offload
        "resumes_first": source.engine_workers or (not vllm and not source.since("0.6.0")),
        "empties_cache_first": not source.engine_workers or source.since("0.9.0") or actor.param_offload,
    }


def gathers_whole_model(source: Source, rollout: Rollout, actor: Engine) -> bool:
    """Whether every full tensor exists at once.

    FSDP1 summons the whole model for its adapters unless told to go layer by layer, and for
    SGLang's ``dummy_hf`` format of the first sharding managers.
    """
    layered, text = source.flag("rollout.layered_summon"), source.text("rollout.load_format", default="dummy")
    if actor.backend is not Backend.FSDP:
        return False
    if actor.lora is not None:
        return actor.lora.merged_for_rollout or not layered
    return rollout.engine is RolloutEngine.SGLANG and not source.since("0.6.0") and "hf" in text


def _serves_adapters(actor: Engine) -> bool:
    """Whether the engine applies the adapters itself."""
    return actor.lora is not None and not actor.lora.merged_for_rollout
