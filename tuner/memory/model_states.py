"""Parameters, gradients and optimizer states that live between passes.

Symbols: :math:`N` parameters, :math:`N_t` trained parameters, :math:`W` ranks that share one copy
of the states, :math:`b_s` bytes of the stored dtype, :math:`b_o` bytes of an optimizer moment.
"""

from math import ceil

from tuner.dtypes import DType
from tuner.memory.megatron.grid import local_parameters, optimizer_ranks, optimizer_share
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
    unit is gathered, which is counted there. With a CPU offload policy nothing stays on the GPU but
    what modules hold (:func:`tuner.memory.fsdp.units.has_held_weights`).
    Megatron stores its own slice in the compute dtype, once: the distributed optimizer's buffer of
    weights is what the weights are views of.

    Source: verl 0.9.1 ``workers/engine/fsdp/transformer_impl.py`` (``model_dtype``, default fp32);
    Megatron-Core ``distributed/param_and_grad_buffer.py`` (``param.data = new_param_data``).
    """
    if engine.backend is Backend.MEGATRON:
        stored = local_parameters(model, engine).total + megatron_adapters(engine)
        return stored * engine.compute_dtype.bytes
    if engine.streamed_offload:
        return 0
    return shard(stored_parameters(model, engine), engine) * engine.stored_dtype.bytes


def megatron_adapters(engine: Engine) -> int:
    """Adapter parameters of one rank: of a pair one matrix is divided, counted as if both were."""
    if engine.lora is None:
        return 0
    return ceil(engine.lora.parameters / (engine.parallel.tensor * engine.parallel.pipeline))


def megatron_gradients(model: ModelShape, engine: Engine) -> int:
    """Parameters of one rank that have a place in the gradient buffer."""
    return local_parameters(model, engine).total if engine.lora is None else megatron_adapters(engine)


def megatron_optimizer_share(model: ModelShape, engine: Engine) -> int:
    """Parameters whose optimizer states one rank holds, adapters under LoRA."""
    if engine.lora is None:
        return optimizer_share(model, engine)
    return ceil(megatron_adapters(engine) / optimizer_ranks(engine)[0])


def gradient_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Gradients kept from the backward pass to the optimizer step.

    .. math:: b_s \, N_t / W \;\text{(FSDP)} \qquad b_r \, N_p \;\text{(Megatron)}

    FSDP keeps the reduced gradient in the dtype of the stored weight. Megatron allocates a buffer
    for the gradients of all :math:`N_p` weights of the rank when it is built, undivided by data
    parallelism, and never frees it: it lies on the card in every phase. Only verl does, when it
    offloads the weights; a pass without gradients then loads the weights alone. ``grad_offload`` is
    read by no release. The buffer is float32 up to 0.6; later releases build some models through
    Megatron-Bridge, where 0.7.1 and 0.8 leave it in the compute dtype.

    Source: torch ``_fsdp_param.py`` (gradient cast to the sharded parameter's dtype); Megatron-Core
    ``distributed/param_and_grad_buffer.py``; verl ``utils/megatron_utils.py``
    (``offload_megatron_model_to_cpu``, ``load_megatron_model_to_gpu``), ``make_megatron_module``.
    """
    if engine.backend is Backend.MEGATRON:
        return megatron_gradients(model, engine) * engine.reduce_dtype.bytes
    if engine.streamed_offload:
        return 0
    return shard(trained_parameters(model, engine), engine) * engine.stored_dtype.bytes


def optimizer_bytes(model: ModelShape, engine: Engine) -> int:
    r"""States of the optimizer, from the end of the first step on.

    .. math:: 2 \, b_o \, N_t / W

    AdamW allocates its two moments in the first ``step()``, not before: a job that fits through
    its first step can fail at the wake-up that follows. Under Megatron

    .. math:: N_o \, (b_m (1 - f_m) + 2 \, b_o (1 - f))

    for the :math:`N_o` parameters of the rank's share: a main weight and both moments, 12 bytes.
    The main weight takes 2 bytes where a precision-aware optimizer stores only the half of it that
    the bfloat16 weight lacks. The share :math:`f` of the moments is on the host with
    ``optimizer_offload_fraction``; main weights go with it (:math:`f_m = f`) only if the optimizer
    is precision-aware, otherwise Megatron keeps them all on the card.

    Source: torch ``optim/adamw.py``; Megatron-Core ``optimizer/distrib_optimizer.py``
    (``_build_model_and_main_param_groups``), ``optimizer/cpu_offloading/hybrid_optimizer.py``,
    ``optimizer/optimizer_config.py`` (``store_param_remainders``, with Transformer Engine 2.1).
    """
    if engine.backend is Backend.MEGATRON:
        fraction = engine.optimizer_offload_fraction
        main = engine.main_weight_bytes * (1 - (fraction if engine.main_weights_offloaded else 0))
        moments = MOMENTS * engine.optimizer_dtype.bytes * (1 - fraction)
        return ceil(megatron_optimizer_share(model, engine) * (main + moments))
    if engine.streamed_offload:
        return 0
    return shard(trained_parameters(model, engine), engine) * MOMENTS * engine.optimizer_dtype.bytes


def optimizer_step_bytes(model: ModelShape, engine: Engine) -> int:
    r"""What ``AdamW.step`` allocates for itself.

    .. math:: b_o \, N_t / W

    The multi-tensor implementation computes the square root of all second moments into one new
    list of tensors before it divides. The fused optimizers of Megatron work in place; gradients
    that are not float32 are copied into it for the share of the rank, :math:`4 N_o (1 - f)`, unless
    the optimizer is precision-aware.

    Source: torch ``optim/adam.py``, ``_multi_tensor_adam`` (``torch._foreach_sqrt``); Megatron-Core
    ``optimizer/distrib_optimizer.py`` (``_copy_model_grads_to_main_grads``).
    """
    if engine.backend is Backend.MEGATRON:
        copied = engine.reduce_dtype is not DType.FLOAT32 and engine.main_weight_bytes == DType.FLOAT32.bytes
        held = megatron_optimizer_share(model, engine) * (1 - engine.optimizer_offload_fraction)
        return ceil(held * DType.FLOAT32.bytes) if copied else 0
    if engine.streamed_offload:
        return 0
    return shard(trained_parameters(model, engine), engine) * engine.optimizer_dtype.bytes
