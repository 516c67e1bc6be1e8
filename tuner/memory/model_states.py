"""Parameters, gradients and optimizer states that live between passes.

Symbols: :math:`N` parameters, :math:`N_t` trained parameters, :math:`W` ranks that share one copy
of the states, :math:`b_s` bytes of the stored dtype, :math:`b_o` bytes of an optimizer moment.
"""

from math import ceil

from tuner.dtypes import DType
from tuner.evidence import Evidence
from tuner.memory.ledger.expression import ceil_div
from tuner.memory.ledger.stated import stated
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.megatron.grid import local_parameters, optimizer_ranks, optimizer_share
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine


def trained_parameters(model: ModelShape, engine: Engine) -> int:
    """Parameters with a gradient: all of them, or the adapters under LoRA."""
    return model.parameters if engine.lora is None else engine.lora.parameters


def stored_parameters(model: ModelShape, engine: Engine) -> int:
    """Parameters an engine keeps: the model and, under LoRA, its adapters."""
    return model.parameters + (0 if engine.lora is None else engine.lora.parameters)


def stored_on_card(count: int, engine: Engine) -> int:
    """Elements that an FSDP engine keeps on its cards: none where a CPU offload policy streams them."""
    return 0 if engine.streamed_offload else count


def shard(count: int, engine: Engine) -> int:
    """The part of ``count`` elements that one FSDP rank holds, rounded up."""
    return ceil(count / engine.parallel.shard)


def megatron_adapters(engine: Engine) -> int:
    """Adapter parameters of one rank: of a pair one matrix is divided, counted as if both were."""
    if engine.lora is None:
        return 0
    return ceil(engine.lora.parameters / (engine.parallel.tensor * engine.parallel.pipeline))


def megatron_parameters(model: ModelShape, engine: Engine) -> int:
    """Parameters that one rank stores, with its adapters."""
    return local_parameters(model, engine).total + megatron_adapters(engine)


def megatron_gradients(model: ModelShape, engine: Engine) -> int:
    """Parameters of one rank that have a place in the gradient buffer."""
    return local_parameters(model, engine).total if engine.lora is None else megatron_adapters(engine)


def megatron_optimizer_share(model: ModelShape, engine: Engine) -> int:
    """Parameters whose optimizer states one rank holds, adapters under LoRA."""
    if engine.lora is None:
        return optimizer_share(model, engine)
    return ceil(megatron_adapters(engine) / optimizer_ranks(engine)[0])


# -- parameters -------------------------------------------------------------------------


def shard_bytes(*, b_s: int, N: int, W: int) -> int:
    """Weights as one GPU stores them between passes, under FSDP.

    The stored weights are the sharded master copy; mixed precision casts them when a unit is gathered,
    which is counted there. With a CPU offload policy nothing stays on the GPU but what modules hold
    (:func:`tuner.memory.fsdp.units.has_held_weights`).

    Source: verl 0.9.1 ``workers/engine/fsdp/transformer_impl.py`` (``model_dtype``, default fp32).
    """
    return b_s * ceil_div(N, W)


def slice_bytes(*, b_c: int, N_p: int) -> int:
    """Weights as one GPU stores them between passes, under Megatron: its own slice, in the compute dtype.

    It is stored once: the distributed optimizer's buffer of weights is what the weights are views of.

    Source: Megatron-Core ``distributed/param_and_grad_buffer.py`` (``param.data = new_param_data``).
    """
    return b_c * N_p


def parameters(model: ModelShape, engine: Engine, role: str = "actor") -> Term:
    """An engine's weights as they are stored; ``role`` begins the name."""
    name = f"{role}_parameters"
    if engine.backend is Backend.MEGATRON:
        slice_numbers = {"b_c": engine.compute_dtype.bytes, "N_p": megatron_parameters(model, engine)}
        return stated(Item.PARAMETERS, name, slice_bytes, slice_numbers)
    numbers = {
        "b_s": engine.stored_dtype.bytes,
        "N": stored_on_card(stored_parameters(model, engine), engine),
        "W": engine.parallel.shard,
    }
    return stated(Item.PARAMETERS, name, shard_bytes, numbers)


# -- gradients --------------------------------------------------------------------------


def gradient_shard_bytes(*, b_s: int, N_t: int, W: int) -> int:
    """Gradients kept from the backward pass to the optimizer step, under FSDP.

    FSDP keeps the reduced gradient in the dtype of the stored weight. ``grad_offload`` is read by no
    release.

    Source: torch ``_fsdp_param.py`` (gradient cast to the sharded parameter's dtype).
    """
    return b_s * ceil_div(N_t, W)


def gradient_buffer_bytes(*, b_r: int, N_g: int) -> int:
    """Gradients under Megatron: a buffer that lies on the card in every phase.

    Megatron allocates it for the gradients of all weights of the rank when it is built, undivided by
    data parallelism, and never frees it. Only verl does, when it offloads the weights; a pass without
    gradients then loads the weights alone. The buffer is float32 up to 0.6; later releases build some
    models through Megatron-Bridge, where 0.7.1 and 0.8 leave it in the compute dtype.

    Source: Megatron-Core ``distributed/param_and_grad_buffer.py``; verl ``utils/megatron_utils.py``
    (``offload_megatron_model_to_cpu``, ``load_megatron_model_to_gpu``), ``make_megatron_module``.
    """
    return b_r * N_g


def gradients(model: ModelShape, engine: Engine, name: str = "gradients") -> Term:
    """An engine's gradients before the optimizer step; Megatron's buffer at any time."""
    if engine.backend is Backend.MEGATRON:
        buffer_numbers = {"b_r": engine.reduce_dtype.bytes, "N_g": megatron_gradients(model, engine)}
        return stated(Item.GRADIENTS, name, gradient_buffer_bytes, buffer_numbers)
    numbers = {
        "b_s": engine.stored_dtype.bytes,
        "N_t": stored_on_card(trained_parameters(model, engine), engine),
        "W": engine.parallel.shard,
    }
    return stated(Item.GRADIENTS, name, gradient_shard_bytes, numbers)


# -- optimizer --------------------------------------------------------------------------


def moments_bytes(*, b_o: int, N_t: int, W: int) -> int:
    """States of the optimizer under FSDP, from the end of the first step on.

    AdamW allocates its two moments in the first ``step()``, not before: a job that fits through
    its first step can fail at the wake-up that follows.

    Source: torch ``optim/adamw.py``.
    """
    return 2 * b_o * ceil_div(N_t, W)


def main_weights_and_moments_bytes(*, N_o: int, b_m: int, f_m: float, b_o: int, f_o: float) -> float:
    """States of the optimizer under Megatron.

    For each parameter of the rank's share a main weight and both moments, 12 bytes. The main weight
    takes 2 bytes where a precision-aware optimizer stores only the half of it that the bfloat16 weight
    lacks. The share :math:`f_o` of the moments is on the host with ``optimizer_offload_fraction``; main
    weights go with it (:math:`f_m = f_o`) only if the optimizer is precision-aware, otherwise Megatron
    keeps them all on the card.

    Source: Megatron-Core ``optimizer/distrib_optimizer.py``
    (``_build_model_and_main_param_groups``), ``optimizer/cpu_offloading/hybrid_optimizer.py``,
    ``optimizer/optimizer_config.py`` (``store_param_remainders``, with Transformer Engine 2.1).
    """
    return N_o * (b_m * (1 - f_m) + 2 * b_o * (1 - f_o))


def megatron_optimizer_numbers(model: ModelShape, engine: Engine) -> dict[str, float]:
    """The symbols of a Megatron optimizer."""
    fraction = engine.optimizer_offload_fraction
    return {
        "N_o": megatron_optimizer_share(model, engine),
        "b_m": engine.main_weight_bytes,
        "f_m": fraction if engine.main_weights_offloaded else 0,
        "b_o": engine.optimizer_dtype.bytes,
        "f_o": fraction,
    }


def optimizer(model: ModelShape, engine: Engine, role: str = "actor") -> Term:
    """An engine's optimizer states; ``role`` begins the name."""
    name = f"{role}_optimizer"
    if engine.backend is Backend.MEGATRON:
        numbers = megatron_optimizer_numbers(model, engine)
        return stated(Item.OPTIMIZER, name, main_weights_and_moments_bytes, numbers)
    return stated(Item.OPTIMIZER, name, moments_bytes, _fsdp_optimizer_numbers(model, engine))


def _fsdp_optimizer_numbers(model: ModelShape, engine: Engine) -> dict[str, float]:
    return {
        "b_o": engine.optimizer_dtype.bytes,
        "N_t": stored_on_card(trained_parameters(model, engine), engine),
        "W": engine.parallel.shard,
    }


def square_root_bytes(*, b_o: int, N_t: int, W: int) -> int:
    """What ``AdamW.step`` allocates for itself under FSDP.

    The multi-tensor implementation computes the square root of all second moments into one new
    list of tensors before it divides.

    Source: torch ``optim/adam.py``, ``_multi_tensor_adam`` (``torch._foreach_sqrt``).
    """
    return b_o * ceil_div(N_t, W)


def copied_gradient_bytes(*, N_o: int, f_o: float) -> float:
    """What an optimizer step allocates under Megatron.

    Its fused optimizers work in place; gradients that are not float32 are copied into it for the share
    of the rank, unless the optimizer is precision-aware.

    Source: Megatron-Core ``optimizer/distrib_optimizer.py`` (``_copy_model_grads_to_main_grads``).
    """
    return N_o * (1 - f_o) * 4


def optimizer_step(model: ModelShape, engine: Engine) -> Term:
    """What an optimizer step allocates for itself."""
    if engine.backend is not Backend.MEGATRON:
        numbers = _fsdp_optimizer_numbers(model, engine)
        return stated(Item.OPTIMIZER, "optimizer_step", square_root_bytes, numbers)
    copied = engine.reduce_dtype is not DType.FLOAT32 and engine.main_weight_bytes == DType.FLOAT32.bytes
    share = megatron_optimizer_share(model, engine) if copied else 0
    return stated(
        Item.OPTIMIZER,
        "optimizer_step",
        copied_gradient_bytes,
        {"N_o": share, "f_o": engine.optimizer_offload_fraction},
        evidence=Evidence.MODELLED,
    )
