"""Fields of the weight sync: how new weights reach the rollout engine."""

from tuner.dtypes import DType
from tuner.model_shape import ModelShape
from tuner.trainers.fields import (
    MEBIBYTES,
    Assignments,
    Field,
    Plain,
    Ruled,
    read_fields,
)
from tuner.trainers.verl.carriers import refuses_large_tensors
from tuner.trainers.verl.fields.context import ReleaseContext
from tuner.trainers.verl.rollout_facts import sync_facts
from tuner.trainers.verl.source import ReleaseSettings
from tuner.units import MIB
from tuner.workload import Backend, Carrier, Engine, Rollout, RolloutEngine, WeightSync

#: What a release makes of the other fields; a proposal need not say it.
FOLLOWING = ("smallest_bucket_bytes", "empties_cache_first", "stages_weights", "carrier", "buckets")


class SyncContext(ReleaseContext, frozen=True, kw_only=True):
    """What reading the weight sync takes."""

    model: ModelShape
    rollout: Rollout
    actor: Engine


def read_sync(source: ReleaseSettings, model: ModelShape, rollout: Rollout, actor: Engine) -> WeightSync:
    """How new weights travel."""
    context = SyncContext(source=source, model=model, rollout=rollout, actor=actor)
    facts = sync_facts(source, rollout, actor)
    return WeightSync(
        **read_fields(SYNC, context),
        smallest_bucket_bytes=_largest_tensor(context) if _asserts_bucket(context, facts["carrier"]) else 0,
        **facts,
    )


# -- what the release makes of other settings -------------------------------------------------


def _asserts_bucket(context: SyncContext, carrier: Carrier | None) -> bool:
    """Whether a tensor larger than the bucket is refused.

    0.7.1 does for vLLM, and later releases send it on its own. TensorRT-LLM's transfer always does.

    Source: verl 0.7.1 ``workers/rollout/vllm_rollout/bucketed_weight_transfer.py``, 0.8.0 to 0.9.1
    ``workers/rollout/trtllm_rollout/trtllm_rollout.py`` (``update_weights``).
    """
    source = context.source
    if carrier is not None and refuses_large_tensors(source, carrier):
        return True
    if context.rollout.engine is RolloutEngine.TENSORRT_LLM:
        return source.since("0.8.0")
    vllm = context.rollout.engine is RolloutEngine.VLLM
    return vllm and source.since("0.7.1") and not source.since("0.8.0")


def _largest_tensor(context: SyncContext) -> int:
    # the embedding, as stored; the model engines cast to bfloat16 before they send
    dtype = DType.BFLOAT16 if context.source.engine_workers else context.actor.stored_dtype
    return context.model.embedding_parameters * dtype.bytes


# -- the table --------------------------------------------------------------------------------


def _travels_in_buckets(context: SyncContext) -> bool:
    """Up to 0.7.0 only SGLang gets new weights in buckets, and 0.4 has no size for them."""
    source, engine = context.source, context.rollout.engine
    later = source.since("0.7.1") and engine is not RolloutEngine.TRANSFORMERS
    return source.key("sync.bucket_megabytes") is not None and (engine is RolloutEngine.SGLANG or later)


def _gathers_whole_model(context: SyncContext) -> bool:
    """Whether every full tensor exists at once.

    FSDP1 summons the whole model for its adapters unless told to go layer by layer, and for
    SGLang's ``dummy_hf`` format of the first sharding managers.
    """
    source, lora = context.source, context.actor.lora
    layered, text = source.flag("rollout.layered_summon"), _load_format(source)
    if context.actor.backend is not Backend.FSDP:
        return False
    if lora is not None:
        return lora.merged_for_rollout or not layered
    return context.rollout.engine is RolloutEngine.SGLANG and not source.since("0.6.0") and "hf" in text


def _load_format(source: ReleaseSettings) -> str:
    return source.text("rollout.load_format", default="dummy")


def _set_gathers_whole_model(context: SyncContext, sync: WeightSync) -> Assignments:
    """Layer by layer only adapters travel: an engine that starts from dummy weights has no base for them.

    Source: verl 0.7.0 ``utils/fsdp_utils.py:620-626`` (``collect_lora_params`` raises ``ValueError``).
    """
    layered = ("rollout.layered_summon", not sync.gathers_whole_model)
    adapters = context.actor.lora is not None and not sync.gathers_whole_model
    if not adapters or not _load_format(context.source).startswith("dummy"):
        return (layered,)
    return layered, ("rollout.load_format", "safetensors")


SYNC: tuple[Field[SyncContext], ...] = (
    Plain(
        "bucket_bytes",
        "sync.bucket_megabytes",
        MEBIBYTES,
        lambda context: (2048 if context.source.since("0.7.1") else 512) * MIB,
        heeded=_travels_in_buckets,
        otherwise=0,
        checked=True,
    ),
    Ruled("gathers_whole_model", _gathers_whole_model, _set_gathers_whole_model),
)
