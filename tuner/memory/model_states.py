"""Parameters, gradients and optimizer states that live between passes.

Symbols: :math:`N` parameters, :math:`N_t` trained parameters, :math:`W` ranks that share one copy
of the states, :math:`b_s` bytes of the stored dtype, :math:`b_o` bytes of an optimizer moment.
"""

from math import ceil

from tuner.dtypes import DType
from tuner.memory.megatron import local_parameters, optimizer_share
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine

MOMENTS = 2  # AdamW: first and second moment


def trained_parameters(model: ModelShape, engine: Engine) -> int:
    """Parameters with a gradient: all of them, or the adapters under LoRA."""
    return model.parameters if engine.lora is None else engine.lora.parameters


def stored_parameters(model: ModelShape, engine: Engine) -> int:
    """Parameters an engine keeps: the model and, under LoRA, its adapters."""
    return model.parameters + (0 if engine.lora is None else engine.lora.parameters)


def shard(count: int, engine: Engine) -> int:
    """The part of ``count`` elements that one FSDP rank holds, rounded up."""
    return ceil(count / engine.parallel.shard)


def parameter_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Weights as one GPU stores them between passes.

    .. math:: b_s \, N / W

    Under FSDP the stored weights are the sharded master copy; mixed precision casts them when a
    unit is gathered, which is counted there. Megatron stores its own slice in the compute dtype.
    With a CPU offload policy nothing stays on the GPU.

    Source: verl 0.9.1 ``workers/engine/fsdp/transformer_impl.py`` (``model_dtype``, default fp32).
    """
    if engine.backend is Backend.MEGATRON:
        return local_parameters(model, engine).total * engine.compute_dtype.bytes
    if engine.streamed_offload:
        return 0
    return shard(stored_parameters(model, engine), engine) * engine.stored_dtype.bytes


def gradient_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Gradients kept from the backward pass to the optimizer step.

    .. math:: b_s \, N_t / W

    FSDP keeps the reduced gradient in the dtype of the stored weight. Megatron keeps a float32
    buffer of all its own weights, which data parallelism does not divide.

    Source: torch ``_fsdp_param.py`` (gradient cast to the sharded parameter's dtype); Megatron-Core
    ``param_and_grad_buffer.py``.
    """
    if engine.backend is Backend.MEGATRON:
        return local_parameters(model, engine).total * DType.FLOAT32.bytes if engine.lora is None else 0
    if engine.streamed_offload:
        return 0
    return shard(trained_parameters(model, engine), engine) * engine.stored_dtype.bytes


def optimizer_bytes(model: ModelShape, engine: Engine) -> int:
    r"""States of the optimizer, from the end of the first step on.

    .. math:: 2 \, b_o \, N_t / W

    AdamW allocates its two moments in the first ``step()``, not before: a job that fits through
    its first step can fail at the wake-up that follows. Megatron's distributed optimizer holds a
    float32 main weight and both moments, 12 bytes per parameter, divided by data parallelism;
    ``optimizer_offload_fraction`` of it lives on the host.

    Source: torch ``optim/adamw.py``; verl ``utils/megatron_utils.py``.
    """
    if engine.backend is Backend.MEGATRON:
        if engine.lora is not None:
            return ceil(12 * engine.lora.parameters / engine.parallel.tensor / engine.parallel.pipeline)
        per_parameter = DType.FLOAT32.bytes + MOMENTS * engine.optimizer_dtype.bytes
        held = optimizer_share(model, engine) * per_parameter
        return ceil(held * (1 - engine.optimizer_offload_fraction))
    if engine.streamed_offload:
        return 0
    return shard(trained_parameters(model, engine), engine) * MOMENTS * engine.optimizer_dtype.bytes


def optimizer_step_bytes(model: ModelShape, engine: Engine) -> int:
    r"""What ``AdamW.step`` allocates for itself.

    .. math:: b_o \, N_t / W

    The multi-tensor implementation computes the square root of all second moments into one new
    list of tensors before it divides. Fused optimizers (Megatron) allocate nothing.

    Source: torch ``optim/adam.py``, ``_multi_tensor_adam`` (``torch._foreach_sqrt``).
    """
    if engine.backend is Backend.MEGATRON or engine.streamed_offload:
        return 0
    return shard(trained_parameters(model, engine), engine) * engine.optimizer_dtype.bytes
