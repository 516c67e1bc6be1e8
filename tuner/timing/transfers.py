"""Seconds of the host link, of the optimizer step and of moving states between host and GPU."""

from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.hardware import Gpu
from tuner.model_shape import ModelShape
from tuner.timing import assumptions as assume
from tuner.timing.host import host_of_optimizer
from tuner.timing.rates import (
    copy_bytes_per_s,
    fresh_bytes_per_s,
    pageable_bytes_per_s,
    pinned_bytes_per_s,
)
from tuner.workload import Backend, Engine, HostCopy

_MOMENTS = 2
_MAIN_WEIGHTS = 1  # Megatron's float32 weights belong to its optimizer


def pinned_seconds(bytes_moved: float, gpu: Gpu) -> float:
    """Copy between GPU and page-locked host memory, one direction."""
    return bytes_moved / pinned_bytes_per_s(gpu)


def offloading_parts(
    bytes_moved: float, engine: Engine, gpu: Gpu, *, comes: int, leaves: int
) -> dict[str, float]:
    """Seconds by cause of weights that come from the host and leave for it, as the trainer offloads them.

    Page-locked copies go at the speed of the link. Others pass through memory that nobody has touched, by one
    thread of the host. Megatron's worker collects garbage each time, up to verl 0.9.0.

    Source: verl 0.4.0 to 0.9.1 ``utils/megatron_utils.py`` (``load_megatron_model_to_gpu`` and the like).

    Args:
        bytes_moved: of the weights.
        engine: whose they are.
        gpu: the card.
        comes: how often they come.
        leaves: how often they leave.
    """
    host_copy = engine.host_copy
    link, host = 0.0, 0.0
    if host_copy is HostCopy.PINNED:
        link += leaves * bytes_moved / pinned_bytes_per_s(gpu)
    else:
        copied = bytes_moved / assume.HOST_COPY_BYTES_PER_S if host_copy is HostCopy.REPINNED else 0.0
        host += leaves * (bytes_moved / fresh_bytes_per_s(gpu) + copied)
    if host_copy is HostCopy.PAGEABLE:
        host += comes * bytes_moved / pageable_bytes_per_s(gpu)
    else:
        link += comes * bytes_moved / pinned_bytes_per_s(gpu)
    collections = comes + leaves if _collects(engine) else 0
    return {"states": link, "host_copies": host, "collections": collections * assume.COLLECTION_ALONE_S}


def _collects(engine: Engine) -> bool:
    return engine.backend is Backend.MEGATRON and engine.collects_garbage


def weights_held(model: ModelShape, engine: Engine) -> float:
    """Parameters that one GPU stores: a shard, or its share of tensor, pipeline and expert parallelism."""
    return sum(_held_apart(model, engine))


def _held_apart(model: ModelShape, engine: Engine) -> tuple[float, float]:
    """What is held beside routed experts, and of these."""
    parallel = engine.parallel
    if engine.backend is not Backend.MEGATRON:
        return model.parameters / parallel.shard, 0.0
    experts = model.sparse_layers * model.expert_parameters
    rest = (model.parameters - experts) / (parallel.tensor * parallel.pipeline)
    return rest, experts / (parallel.expert * parallel.expert_tensor * parallel.pipeline)


def trained_values(model: ModelShape, engine: Engine) -> float:
    """Parameters whose optimizer states one GPU holds.

    Under Megatron ranks that have the same experts share theirs, fewer than those that have the rest alike.
    """
    rest, experts = _held_apart(model, engine)
    share = 1.0
    if engine.lora is not None:
        share = engine.lora.parameters / model.parameters
    elif engine.frozen_tower:
        share = 1 - model.extra_parameters / model.parameters
    if engine.backend is Backend.MEGATRON and engine.distributed_optimizer:
        parallel = engine.parallel
        alike = parallel.gpus // (parallel.expert * parallel.expert_tensor * parallel.pipeline)
        rest /= parallel.data * parallel.context
        experts /= max(1, alike)
    return share * (rest + experts)


def optimizer_parts(model: ModelShape, engine: Engine, gpu: Gpu) -> dict[str, float]:
    """Seconds by cause of one AdamW step: on the card, and of the share of states that lives on the host."""
    on_host = 1.0 if engine.streamed_offload else engine.optimizer_offload_fraction
    parts = {"optimizer": (1 - on_host) * _on_card(model, engine, gpu)}
    if on_host:
        parts["host_optimizer"] = on_host * _on_host(model, engine, gpu)
    return parts


def _on_card(model: ModelShape, engine: Engine, gpu: Gpu) -> float:
    """Reads and writes per trained value over memory bandwidth, and the host's time.

    The host clips and steps tensor by tensor: FSDP2's are distributed ones, FSDP1 has one for each unit,
    which each matrix of an adapter is.
    """
    fused = engine.backend is Backend.MEGATRON or engine.fused_optimizer
    accesses = assume.FUSED_ADAMW_ACCESSES if fused else assume.FOREACH_ADAMW_ACCESSES
    bytes_moved = trained_values(model, engine) * accesses * engine.optimizer_dtype.bytes
    return bytes_moved / copy_bytes_per_s(gpu) + _tensors_seconds(model, engine, gpu)


def _on_host(model: ModelShape, engine: Engine, gpu: Gpu) -> float:
    """Reads and writes per trained value by the one thread of a worker, and the way of gradients and weights.

    Of states that are streamed that way is counted in the pass.
    """
    values = trained_values(model, engine)
    fused = engine.backend is Backend.MEGATRON or engine.fused_optimizer
    accesses = assume.HOST_FUSED_ADAMW_ACCESSES if fused else assume.HOST_ADAMW_ACCESSES
    bytes_moved = values * accesses * engine.optimizer_dtype.bytes
    crossing = 0.0 if engine.streamed_offload else values * (DType.FLOAT32.bytes + engine.stored_dtype.bytes)
    return bytes_moved / assume.HOST_THREAD_BYTES_PER_S + pinned_seconds(crossing, gpu)


def _tensors_seconds(model: ModelShape, engine: Engine, gpu: Gpu) -> float:
    """What the host needs to clip and step all tensors of the model, or of its adapters."""
    if engine.backend is Backend.MEGATRON:
        return 0.0  # one buffer
    first = engine.backend is Backend.FSDP
    per_tensor = host_of_optimizer(gpu.name, "plain" if first else "fsdp2", ranks=engine.parallel.gpus)
    if engine.lora is not None and engine.lora.matrices:
        return engine.lora.matrices * per_tensor
    return model.layers * (1 if first else assume.LAYER_TENSORS) * per_tensor


def state_transfer_parts(model: ModelShape, engine: Engine, gpu: Gpu, *, trains: bool) -> dict[str, float]:
    """Seconds by cause of loading offloaded states before a phase and storing them after it, once per phase.

    A forward-only phase moves the weights alone. States that are streamed during the pass are not moved
    here, nor is the share of Megatron's optimizer that lives on the host.

    Moments leave by copies that do not wait, for which PyTorch takes page-locked memory: the first time it
    asks the system for that, at some 2 GB/s, and from then on it finds what the step before has let go. A
    trainer may also let them go and take other memory each time.

    Weights that stay for all passes of a step move with the weight sync, see ``staging_parts``.
    """
    if engine.streamed_offload:
        return {"states": 0.0}
    megatron = engine.backend is Backend.MEGATRON
    parts = {"states": 0.0}
    if engine.param_offload and not engine.stays_between:
        weights = weights_held(model, engine) * engine.stored_dtype.bytes
        parts = offloading_parts(weights, engine, gpu, comes=1, leaves=1)
    if trains and engine.optimizer_offload:
        left = 1 - engine.optimizer_offload_fraction  # the rest lives on the host anyway
        weights_left = left if engine.main_weights_offloaded else 1.0
        weights_left = 0.0 if engine.keeps_main_weights else weights_left
        states = _MOMENTS * left + (_MAIN_WEIGHTS * weights_left if megatron else 0)
        moved = trained_values(model, engine) * states * engine.optimizer_dtype.bytes
        if engine.optimizer_copy is not HostCopy.PINNED:
            copied = replace(engine, host_copy=engine.optimizer_copy)
            for cause, seconds in offloading_parts(moved, copied, gpu, comes=1, leaves=1).items():
                parts[cause] = parts.get(cause, 0.0) + seconds
            return parts
        parts["states"] += 2 * pinned_seconds(moved, gpu)
        if _collects(engine):
            parts["collections"] = parts.get("collections", 0.0) + 2 * assume.COLLECTION_ALONE_S
    return parts
