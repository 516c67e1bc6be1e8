"""What carrying new weights to the rollout engine allocates on the trainer's side."""

from tuner.dtypes import DType
from tuner.memory.fsdp_units import whole_model_bytes
from tuner.memory.megatron import local_parameters
from tuner.memory.model_states import shard
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine, WeightSync


def largest_tensor_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The largest gathered tensor, in the stored dtype: :math:`b_s V H` for the embedding.

    Fused expert tensors of one layer can be larger.
    """
    dtype = engine.compute_dtype if engine.backend is Backend.MEGATRON else engine.stored_dtype
    experts = model.expert_parameters * 2 // 3  # gate and up of all experts are one tensor
    return max(model.embedding_parameters, experts) * dtype.bytes


def adapter_sync_bytes(model: ModelShape, engine: Engine, sync: WeightSync) -> int:
    r"""Gathering LoRA adapters, which travel without the base model.

    .. math:: b_s U_l \;\text{(layer by layer)} \quad\text{or}\quad b_s N

    FSDP can only summon whole units, so the base weights around the adapters are gathered too: one
    layer at a time, or all of them at once.

    Source: verl ``utils/fsdp_utils.py`` (``layered_summon_lora_params``, ``collect_lora_params``).
    """
    gathered = model.parameters if sync.gathers_whole_model else model.largest_layer_parameters
    return gathered * engine.stored_dtype.bytes


def sync_bytes(model: ModelShape, engine: Engine, sync: WeightSync) -> int:
    r"""Buckets and gathered tensors while weights are sent.

    .. math:: B + b_s V H

    One bucket and the largest tensor, which is gathered whole before it is copied into a bucket.
    FSDP1 clones its shards for the state dict (:math:`b_s N / W`). Releases that gather the whole
    model first hold :math:`b_c N` instead. Megatron keeps nothing but the bucket and one tensor.

    Source: verl 0.9.1 ``workers/rollout/vllm_rollout/bucketed_weight_transfer.py``,
    ``workers/engine/fsdp/transformer_impl.py`` (``get_per_tensor_param``).
    """
    if engine.backend is Backend.MEGATRON:
        gathered = (
            local_parameters(model, engine).total * DType.BFLOAT16.bytes if sync.gathers_whole_model else 0
        )
        return gathered or sync.bucket_bytes + largest_tensor_bytes(model, engine)
    if engine.lora is not None and not engine.lora.merged_for_rollout:
        return adapter_sync_bytes(model, engine, sync)
    if sync.gathers_whole_model:
        return sync.bucket_bytes + whole_model_bytes(model, engine)
    total = sync.bucket_bytes + largest_tensor_bytes(model, engine)
    if engine.backend is Backend.FSDP:
        total += shard(model.parameters, engine) * engine.stored_dtype.bytes
    return total
