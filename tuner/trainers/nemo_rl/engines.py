"""The engines that train under NeMo-RL: FSDP2 by NeMo Automodel (DTensor), or Megatron by Megatron-Bridge.

While vLLM generates on the same GPUs, optimizer states leave before new weights travel, and the weights after
that: what verl calls offloading is no setting here.

Source: NeMo-RL v0.5.0 to v0.7.0 ``models/automodel/setup.py`` (``setup_model_and_optimizer``),
``models/megatron/setup.py`` (``setup_megatron_model``), ``models/policy/workers`` (``offload_before_refit``,
``offload_after_refit``, ``prepare_for_training``).
"""

from typing import Any

from tuner.architectures import find_architecture
from tuner.dtypes import DType
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.models.adapters import ALL_LINEAR, count_adapters, megatron_adapter_parameters
from tuner.trainers.nemo_rl.batches import TOKEN_BYTES, is_packed
from tuner.trainers.nemo_rl.images import sees_images
from tuner.trainers.nemo_rl.releases import TORCH
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.workload import (
    Attention,
    Backend,
    Checkpointing,
    Dispatcher,
    Engine,
    HeadKind,
    HostCopy,
    Lora,
    OutputHead,
    Padding,
    Parallelism,
    Scaling,
)

_CAST_BYTES = 2  # of a weight in 8 bits, as it is and transposed
_MEGATRON_LINEARS = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")


def is_megatron(source: SettingsByMeaning) -> bool:
    """Whether Megatron trains.

    Raises:
        InputError: both engines are switched on, or none.
    """
    megatron, dtensor = source.flag("megatron"), source.flag("dtensor")
    if megatron and dtensor:
        raise source.error("dtensor", _("two engines are switched on: dtensor_cfg and megatron_cfg"))
    if not megatron and not dtensor:
        raise source.error("dtensor", _("no engine is switched on: neither dtensor_cfg nor megatron_cfg"))
    return megatron


def read_engine(source: SettingsByMeaning, model: ModelShape, gpus: int, *, colocated: bool) -> Engine:
    """The engine of the policy, and of its reference.

    Raises:
        InputError: a value has the wrong type, or the parallel sizes do not divide the GPUs.
    """
    if is_megatron(source):
        return _megatron(source, model, gpus, colocated=colocated)
    return _dtensor(source, model, gpus, colocated=colocated)


def read_head(source: SettingsByMeaning, engine: Engine, *, largest: bool = False) -> OutputHead:
    """How log-probabilities come about: a log-softmax of all columns in float32, no entropy.

    Args:
        source: the settings of the model.
        engine: that runs it.
        largest: whether only the largest logits of each token are taken, and made probabilities among them.

    Source: NeMo-RL v0.7.0 ``models/automodel/train.py`` (``_compute_local_logprobs``),
    ``distributed/model_utils.py`` (``get_next_token_logprobs_from_logits``, ``DistributedLogprob``,
    ``get_distillation_topk_logprobs_from_logits``).
    """
    megatron = engine.backend is Backend.MEGATRON
    temperature = source.number("temperature", default=1.0)
    takes = largest and not source.settings.flag("loss_fn.zero_outside_topk")
    return OutputHead(
        kind=HeadKind.LOGITS,
        compiled=False,
        chunk_tokens=source.integer("log_prob_chunk"),
        scaling=Scaling.NONE if megatron or temperature == 1.0 else Scaling.IN_PLACE,
        logits_dtype=DType.FLOAT32,
        fused_cross_entropy=False,
        log_softmax=not takes,
        takes_columns=takes,
        shares_columns=not megatron and engine.parallel.tensor > 1,
        fusable=(),
    )


def _dtensor(source: SettingsByMeaning, model: ModelShape, gpus: int, *, colocated: bool) -> Engine:
    """FSDP2 over masters in float32, by either worker.

    Layers are units and fetch the next one, the root has all else and stays gathered. That gradients are kept
    whole until the last micro-batch is a switch of Automodel's own loops, which NeMo-RL's does not ask.

    Source: NeMo-RL v0.7.0 ``models/automodel/setup.py`` (``FSDP2Config``), ``models/automodel/train.py``
    (``automodel_forward_backward``); NeMo Automodel ``components/distributed/parallelizer.py``
    (``apply_fsdp2_sharding_recursively``), ``components/distributed/utils.py`` (``get_sync_ctx``).
    """
    packed, offload = is_packed(source), source.flag("dtensor.offload")
    leaves = colocated and not offload
    return Engine(
        backend=Backend.FSDP2,
        parallel=_mesh(source, gpus),
        stored_dtype=DType.FLOAT32,
        compute_dtype=source.dtype("precision", default=DType.BFLOAT16),
        reduce_dtype=DType.FLOAT32,
        optimizer_dtype=DType.FLOAT32,
        checkpointing=Checkpointing.FULL if source.flag("dtensor.checkpointing") else Checkpointing.NONE,
        packed=packed,
        padding=Padding.MINI_BATCH,
        # a workaround pads each packed micro-batch up to the whole budget of the update
        bucket_tokens=source.integer("packed.budget", default=1) if source.flag("packed") else 1,
        param_offload=leaves,
        host_copy=HostCopy.PAGEABLE,
        optimizer_offload=leaves,
        optimizer_copy=HostCopy.PAGEABLE,
        streamed_offload=offload,
        tokens_travel=True,
        keeps_root=True,
        whole_root=True,
        forward_prefetch=True,
        title="automodel (fsdp2)",
        attention=Attention.SEQUENCES if source.flag("packed") else Attention.MASKED_ROWS,
        torch=TORCH[source.version],
        reads_positions=source.flag("packed"),
        layers_fusable=False,  # by a key of another kind, which is not read
        packing_tested=True,
        idle_tower=model.tower is not None and not sees_images(source),
        lora=_dtensor_lora(source, model),
        token_bytes=TOKEN_BYTES,
    )


def _mesh(source: SettingsByMeaning, gpus: int) -> Parallelism:
    """Ranks of Automodel: those that share a copy of the states have the columns and experts of it dealt out.

    Experts are dealt out among the ranks of data and context parallelism, which is no axis of its own.

    Source: NeMo Automodel ``components/distributed/mesh_utils.py`` (``create_device_mesh``).

    Raises:
        InputError: the parallel sizes do not divide the GPUs.
    """
    axes = ("tensor", "context", "expert")
    tensor, context, experts = (source.integer(f"dtensor.{axis}", default=1) for axis in axes)
    others = gpus // (tensor * context)
    if gpus % (tensor * context) or (others * context) % experts:
        raise source.error(
            "dtensor.tensor",
            _(
                "tensor {tensor} x context {context}, with experts dealt out to {experts} ranks, do not "
                "divide the trainer's {gpus} GPUs"
            ).format(tensor=tensor, context=context, experts=experts, gpus=gpus),
        )
    return Parallelism(
        gpus=gpus,
        shard=max(1, gpus // source.integer("dtensor.replicas", default=1)),
        tensor=tensor,
        context=context,
        expert=experts,
    )


def _megatron(source: SettingsByMeaning, model: ModelShape, gpus: int, *, colocated: bool) -> Engine:
    """Megatron with weights in 16 bits, a gradient buffer, and a distributed optimizer."""
    dtype = source.dtype("precision", default=DType.BFLOAT16)
    host = source.flag("megatron.host_optimizer")
    precise = source.flag("megatron.precise") or dtype is DType.FLOAT16
    halves = precise and dtype is DType.BFLOAT16 and not host
    packed = source.flag("packed")
    return Engine(
        backend=Backend.MEGATRON,
        cast_weight_bytes=_CAST_BYTES if _casts_weights(source) else 0,
        parallel=_grid(source, gpus),
        stored_dtype=dtype,
        compute_dtype=dtype,
        reduce_dtype=DType.FLOAT32 if source.flag("megatron.float32_gradients") else dtype,
        optimizer_dtype=DType.FLOAT32,
        main_weight_bytes=(DType.BFLOAT16 if halves else DType.FLOAT32).bytes,
        main_weights_offloaded=precise,
        distributed_optimizer=source.flag("megatron.distributed_optimizer", default=True),
        optimizer_offload_fraction=source.number("megatron.host_share", default=0.0) if host else 0.0,
        packed=packed or source.flag("dynamic"),
        padding=Padding.MINI_BATCH,
        param_offload=colocated,
        optimizer_offload=colocated,
        host_copy=HostCopy.PINNED,
        optimizer_copy=HostCopy.PAGEABLE,
        keeps_main_weights=colocated and not precise,
        divides_sequence=source.flag("megatron.divides_sequence"),
        fused_weight_gradients=source.flag("megatron.fused_gradients"),
        fused_rotary=source.flag("megatron.fused_rotary"),
        fused_layers=source.flag("megatron.fused_layers"),
        offsets_gated=True,  # since Megatron-Core 0.15, which every bundled release has
        stacks_experts=find_architecture(model.architecture).bridge_stacks_experts,
        dispatcher=_dispatcher(source),
        frees_stage_outputs=True,
        mtp_module=source.integer("megatron.further_tokens", default=0, minimum=0) > 0,
        lora=_megatron_lora(source, model),
        token_bytes=TOKEN_BYTES,
        **_recomputation(source),
    )


def _casts_weights(source: SettingsByMeaning) -> bool:
    """Whether products read copies of the weights in 8 bits; else these are stored in 8 bits, as often."""
    return source.flag("megatron.fp8") and not source.flag("megatron.fp8_weights")


def _grid(source: SettingsByMeaning, gpus: int) -> Parallelism:
    sizes = {
        axis: source.integer(f"megatron.{axis}", default=1)
        for axis in ("tensor", "pipeline", "context", "expert", "expert_tensor")
    }
    replica = sizes["tensor"] * sizes["pipeline"] * sizes["context"]
    if gpus % replica:
        raise source.error(
            "megatron.tensor",
            _(
                "one copy of the model takes {replica} GPUs (tensor {tensor} x pipeline {pipeline} x context "
                "{context}), which do not divide the trainer's {gpus}"
            ).format(replica=replica, gpus=gpus, **sizes),
        )
    return Parallelism(
        gpus=gpus,
        **sizes,
        first_stage_layers=source.integer("megatron.first_layers"),
        last_stage_layers=source.integer("megatron.last_layers"),
    )


def _recomputation(source: SettingsByMeaning) -> dict[str, Any]:
    """What the backward pass recomputes: every layer, or the parts that are named.

    Source: NeMo-RL v0.7.0 ``models/megatron/setup.py`` (``recompute_granularity``: uniform, one layer at a
    time).
    """
    if not source.flag("megatron.checkpointing"):
        return {"checkpointing": Checkpointing.NONE}
    if source.choice("megatron.granularity", ("full", "selective"), default="full") == "full":
        return {"checkpointing": Checkpointing.FULL}
    parts = source.names("megatron.recomputed")
    return {"checkpointing": Checkpointing.SELECTIVE, "recomputes_parts": parts not in (None, ("core_attn",))}


def _dispatcher(source: SettingsByMeaning) -> Dispatcher:
    if source.flag("megatron.deepep"):
        return Dispatcher.FLEX
    words = tuple(dispatcher.value for dispatcher in Dispatcher)
    return Dispatcher(source.choice("megatron.dispatcher", words, default=Dispatcher.ALL_TO_ALL.value))


def _dtensor_lora(source: SettingsByMeaning, model: ModelShape) -> Lora | None:
    if not source.flag("dtensor.lora"):
        return None
    everything = source.flag("dtensor.lora.all", default=True)
    rank = source.integer("dtensor.lora.rank", default=8)
    counts = count_adapters(
        model,
        rank=rank,
        target=ALL_LINEAR if everything else source.names("dtensor.lora.targets") or ALL_LINEAR,
        exclude=source.names("dtensor.lora.excluded") or (),
        experts=False,
    )
    return Lora(
        rank=rank,
        parameters=counts.parameters,
        matrices=counts.matrices,
        merged_for_rollout=True,
        stays_float32=True,
    )


def _megatron_lora(source: SettingsByMeaning, model: ModelShape) -> Lora | None:
    if not source.flag("megatron.lora"):
        return None
    rank = source.integer("megatron.lora.rank", default=8)
    target = source.names("megatron.lora.targets") or _MEGATRON_LINEARS
    parameters = megatron_adapter_parameters(model, rank=rank, target=target)
    return Lora(rank=rank, parameters=parameters, merged_for_rollout=True)
