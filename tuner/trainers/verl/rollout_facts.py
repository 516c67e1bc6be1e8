"""What a release of verl makes of its rollout engine's memory, as plain facts.

What the engines do by themselves is in :mod:`tuner.serving`.
"""

from typing import Any

from tuner.dtypes import DType
from tuner.errors import UnsupportedError
from tuner.inputs.settings import Settings
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.serving import sglang, tensorrt_llm, vllm
from tuner.trainers.verl import vllm_arguments
from tuner.trainers.verl.carriers import read_carrier
from tuner.trainers.verl.rollout_engine_versions import OLDEST_SERVED
from tuner.trainers.verl.sglang_arguments import hands_on_arguments
from tuner.trainers.verl.source import ReleaseSettings
from tuner.units import GIB
from tuner.versions import at_least
from tuner.workload import Backend, Carrier, Engine, FractionOf, Rollout, RolloutEngine

_OVERRIDDEN = "actor_rollout_ref.model.override_config"

# verl 0.4.1, ``third_party/vllm``: its own copy of the worker of vLLM 0.6.3 takes a share of what its
# profile run leaves free, and makes the cache when generation starts
_COPIED_WORKER: dict[str, Any] = {
    "fraction_of": FractionOf.FREE_AFTER_WEIGHTS,
    "staged_wake_up": True,
    "pins_copy": False,
}


def memory_facts(
    source: ReleaseSettings, rollout_engine: RolloutEngine, version: str, model: ModelShape, actor: Engine
) -> dict[str, Any]:
    """Fields of :class:`~tuner.workload.Rollout` that follow from rollout engine, its version, and release.

    Raises:
        UnsupportedError: this version cannot serve the model's attention or adapters.
    """
    if rollout_engine is RolloutEngine.SGLANG:
        return sglang.memory_facts() | {
            # an 8-bit cache and larger graphs are asked for by arguments
            "quantizes_cache": hands_on_arguments(source),
            "graphs_adjustable": hands_on_arguments(source),
            "sleeps_with_weights": _serves_adapters(actor) and source.since("0.8.0"),
            # up to 0.5 weights and cache come back together unless told otherwise
            "staged_wake_up": source.since("0.6.0") or source.flag("rollout.multi_stage_wake_up"),
        }
    if rollout_engine is RolloutEngine.TENSORRT_LLM:
        return tensorrt_llm.memory_facts()
    if rollout_engine is RolloutEngine.TRANSFORMERS:  # generates in the trainer
        return {"fraction_of": FractionOf.TOTAL, "own_process": False}
    return _vllm(source, version, model, actor)


def _vllm(source: ReleaseSettings, version: str, model: ModelShape, actor: Engine) -> dict[str, Any]:
    facts = vllm.memory_facts(version, model)
    older = vllm_arguments.runs_older_core(source, version)
    if older is not None:
        facts |= vllm.facts_of_core(older=older)
    if _serves_adapters(actor) and not at_least(version, "0.7.3"):
        raise UnsupportedError(
            _("verl cannot hand LoRA adapters to vLLM {version}").format(version=version),
            hint=_("take vLLM 0.7.3 or newer"),
        )
    if not at_least(version, OLDEST_SERVED):
        facts |= _COPIED_WORKER
    elif not source.since("0.4.0") and not source.copy.stages_wake_up:  # together, whatever vLLM can
        facts |= {"staged_wake_up": False}
    return facts | {
        "own_process": source.since("0.7.1"),  # before, its workers are the trainer's processes
        "reduces_with_nccl": not source.since("0.7.0"),  # ``disable_custom_all_reduce=True``
        # the engine in the trainer's process is asked for ``logprobs=0``, whether they are used or not
        "samples_log_probs": not source.since("0.7.0"),
        "image_cache_bytes": _image_cache_bytes(source, version),
        "quantizes_cache": facts["quantizes_cache"] and not _loses_scales(source, version, actor),
    }


def _loses_scales(source: ReleaseSettings, version: str, actor: Engine) -> bool:
    """Whether the scales of a quantized KV cache are gone once the engine has slept.

    A sleep of level 2 drops them with the weights, which a weight sync brings back and them not: the scale of
    the queries is no buffer, and vLLM up to 0.11 loses those of keys and values as well. Making the weights
    ready as after loading sets them again, which verl does since 0.7.1.

    Source: verl 0.7.0 ``workers/rollout/vllm_rollout/vllm_rollout.py:232``, 0.7.1
    ``workers/rollout/vllm_rollout/utils.py:202-206``; vLLM 0.12.0 ``attention/layer.py`` (``_q_scale``),
    ``v1/worker/gpu_worker.py`` (``sleep``), ``v1/worker/gpu_model_runner.py`` (``init_fp8_kv_scales``); vLLM
    #25800, #28783.
    """
    if sleep_level(source, RolloutEngine.VLLM, version, actor) == 1:
        return False
    processes = source.copy.processes_weights
    return not (source.since("0.7.1") if processes is None else processes)


def _image_cache_bytes(source: ReleaseSettings, version: str) -> int:
    """The largest cache of processed images in a process of vLLM; 0 where it is off.

    0.4.0 switches it off, and since 0.9.0 so does verl with a vLLM before 0.22 unless a size is given.
    """
    off = source.flag("rollout.no_image_cache") or source.version == "0.4.0"
    off = off or (source.since("0.9.0") and not at_least(version, "0.22.0"))
    default = 0 if off else vllm.IMAGE_CACHE_GIB
    return int(source.number("rollout.image_cache_gib", default=default, minimum=0.0) * GIB)


def sleeps_with_cache(source: ReleaseSettings, rollout_engine: RolloutEngine, version: str) -> bool:
    """Whether the KV cache stays on the card while the rollout engine sleeps.

    Up to 0.4 every engine sleeps, and the switch only decides whether the cache of vLLM 0.6.3 goes with
    its weights.
    """
    copied = rollout_engine is RolloutEngine.VLLM and not at_least(version, OLDEST_SERVED)
    return copied and not source.flag("rollout.unused_free_cache", default=True)


def sleep_level(source: ReleaseSettings, rollout_engine: RolloutEngine, version: str, actor: Engine) -> int:
    """What happens to the rollout engine's weights while it sleeps: 1 to the host, 2 dropped.

    SGLang keeps a copy on the host since 0.9; before, only for draft models. vLLM keeps one where the
    trainer sends adapters alone. Before 0.7.1 verl asks for one where adapters are gathered layer by layer
    and where experts are divided, since 0.6.1 only with a vLLM older than 0.11.
    """
    if rollout_engine is RolloutEngine.SGLANG:
        return 1 if source.since("0.9.0") else 2
    if rollout_engine is not RolloutEngine.VLLM:
        return 2
    if not source.since("0.6.0"):
        return 1
    if not source.since("0.7.1"):
        experts = source.integer("rollout.expert_parallel", default=1) > 1
        experts = experts and not (source.since("0.6.1") and at_least(version, "0.11.0"))
        return 1 if experts or source.flag("rollout.layered_summon") else 2
    return 1 if _serves_adapters(actor) or source.flag("model.mtp_rollout") else 2


def sync_facts(source: ReleaseSettings, rollout: Rollout, actor: Engine) -> dict[str, Any]:
    """Fields of :class:`~tuner.workload.WeightSync` that follow from engine, release and strategy."""
    vllm = rollout.engine is RolloutEngine.VLLM
    fsdp = actor.backend is not Backend.MEGATRON
    copied = vllm and not at_least(rollout.engine_version, OLDEST_SERVED)
    engines = source.engine_workers and source.since("0.7.1")  # 0.7.0's send as the legacy workers do
    carrier = read_carrier(source, rollout, actor.parallel.gpus)
    # the model engines cast to bfloat16 until 0.9, the loaders for vLLM 0.6.3 to the engine's dtype
    casts = fsdp and (copied or (engines and not source.since("0.9.0")))
    return {
        "carrier": carrier,
        "sent_dtype": DType.BFLOAT16 if casts else None,
        "buckets": _trainer_buckets(source, rollout, carrier),
        # 0.7.1 clones each tensor out of the bucket before it loads them
        "engine_buckets": int(
            vllm and rollout.colocated and source.since("0.7.1") and not source.since("0.8.0")
        ),
        # 0.9 leaves FSDP2's offloaded shards on the host and fetches them tensor by tensor
        "stages_weights": source.veomni  # loads the model first
        or not (source.since("0.9.0") and actor.backend is Backend.FSDP2 and actor.lora is None),
        "offloads_first": source.since("0.6.0"),
        "loads_on_host": copied,
        # its branch of verl 0.4's sharding manager forgets to offload
        "keeps_loaded": copied and fsdp and source.since("0.4.0"),
        "resumes_first": engines
        or (not vllm and source.since("0.4.1") and not source.since("0.6.0")),  # SGLang's
        **_collections(source, rollout),
        "experts_apart": not fsdp or not source.since("0.9.0"),  # transformers 5 has them in one tensor
        "cuts_experts": fsdp and source.since("0.9.0"),  # ``unfuse_moe_params``
        "quantizes_in_one_kernel": source.since("0.7.1"),  # ``blockwise_cast_to_fp8_triton``
        "empties_cache_first": not engines or source.since("0.9.0") or actor.param_offload,
        # ``set_expandable_segments(True)`` behind each sync, the one before the first step too
        "maps_pages": source.since("0.6.0"),
    }


def _collections(source: ReleaseSettings, rollout: Rollout) -> dict[str, Any]:
    """How often garbage is collected around a weight sync, apart from what offloading does.

    ``aggressive_empty_cache`` does, and once more where it has freed a GiB, as the first one behind an update
    has. Up to 0.7.0 it is called before the sync, after it, and after the rollout; the legacy workers of
    0.7.1 call it before the sync and after it, the model engines after it alone, and in 0.9.0 before it
    again. vLLM's sender has emptied the cache before the last one. 0.9.1 collects nothing.

    Source: verl 0.6.0 to 0.9.1 ``utils/memory_utils.py``, ``workers/fsdp_workers.py`` (``rollout_mode``,
    ``trainer_mode``), ``workers/engine_workers.py`` (``update_weights``), 0.7.1 to 0.9.0
    ``workers/rollout/vllm_rollout/bucketed_weight_transfer.py`` (``_cleanup``).
    """
    if not source.since("0.6.0") or source.since("0.9.1"):
        return {}
    if not source.since("0.7.1"):
        return {"collections": 3, "collects_again": True}
    if not rollout.colocated:  # the workers send by a checkpoint engine, and return
        return {}
    vllm = rollout.engine is RolloutEngine.VLLM
    before = source.since("0.9.0") or not source.engine_workers
    return {"collections": 1 + before, "collects_again": before or not vllm, "receiver_collects": vllm}


def _trainer_buckets(source: ReleaseSettings, rollout: Rollout, carrier: Carrier | None) -> int:
    """Buckets that the trainer fills: one that an engine on the same card maps, or those of the carrier."""
    if rollout.colocated:
        return 1
    if carrier is None:
        return 2 if source.since("0.7.1") else 1
    return 0 if carrier.keeps_buckets else carrier.sender_buckets


def _serves_adapters(actor: Engine) -> bool:
    """Whether the rollout engine applies the adapters itself."""
    return actor.lora is not None and not actor.lora.merged_for_rollout


def has_own_positions(settings: Settings) -> bool:
    """Whether a rope scaling or another number of positions is set; under ``model_config`` with Megatron."""
    overridden = (
        *settings.section(_OVERRIDDEN).items(),
        *settings.section(f"{_OVERRIDDEN}.model_config").items(),
    )
    return any(value is not None and ("rope" in name or "position" in name) for name, value in overridden)
