"""Parameters, gradients and optimizer states of an FSDP engine, of which each rank holds a shard.

Symbols: :math:`N` parameters, :math:`N_t` trained parameters, :math:`W` ranks that share one copy
of the states, :math:`b_s` bytes of the stored dtype, :math:`b_o` bytes of an optimizer moment.
"""

from math import ceil

from tuner.memory.ledger.formula import ceil_div
from tuner.memory.ledger.stated_terms import stated
from tuner.memory.ledger.terms import Item, Term
from tuner.model_shape import ModelShape
from tuner.workload import Engine


def trained_parameters(model: ModelShape, engine: Engine) -> int:
    """Parameters with a gradient: all, those beside a frozen or idle vision tower, or adapters under LoRA.

    Source: verl 0.7.1 ``workers/fsdp_workers.py`` (``freeze_vision_tower``).
    """
    if engine.lora is not None:
        return engine.lora.parameters
    return model.parameters - (0 if engine.trains_tower else model.extra_parameters)


def stored_parameters(model: ModelShape, engine: Engine) -> int:
    """Parameters an engine keeps: the model and, under LoRA, its adapters."""
    return model.parameters + (0 if engine.lora is None else engine.lora.parameters)


def stored_on_card(count: int, engine: Engine) -> int:
    """Elements that an FSDP engine keeps on its cards: none where a CPU offload policy streams them."""
    return 0 if engine.streamed_offload else count


def shard(count: int, engine: Engine) -> int:
    """The part of ``count`` elements that one FSDP rank holds, rounded up."""
    return ceil(count / engine.parallel.shard)


def shard_bytes(*, b_s: int, N: int, W: int) -> int:
    """Weights as one GPU stores them between passes, under FSDP.

    The stored weights are the sharded master copy; mixed precision casts them when a unit is gathered,
    which is counted there. With a CPU offload policy nothing stays on the GPU but what modules hold
    (:func:`tuner.memory.fsdp.units.has_held_weights`).

    Source: verl 0.9.1 ``workers/engine/fsdp/transformer_impl.py`` (``model_dtype``, default fp32).
    """
    return b_s * ceil_div(N, W)


def parameters(model: ModelShape, engine: Engine, role: str = "actor") -> Term:
    """An FSDP engine's weights as they are stored; ``role`` begins the name."""
    numbers = {
        "b_s": engine.stored_dtype.bytes,
        "N": stored_on_card(stored_parameters(model, engine), engine),
        "W": engine.parallel.shard,
    }
    return stated(Item.PARAMETERS, f"{role}_parameters", shard_bytes, numbers)


def gradient_shard_bytes(*, b_s: int, N_t: int, W: int) -> int:
    """Gradients kept from the backward pass to the optimizer step, under FSDP.

    FSDP keeps the reduced gradient in the dtype of the stored weight. ``grad_offload`` is read by no
    release.

    Source: torch ``_fsdp_param.py`` (gradient cast to the sharded parameter's dtype).
    """
    return b_s * ceil_div(N_t, W)


def gradients(model: ModelShape, engine: Engine, name: str = "gradients") -> Term:
    """An FSDP engine's gradients before the optimizer step."""
    numbers = {
        "b_s": engine.stored_dtype.bytes,
        "N_t": stored_on_card(trained_parameters(model, engine), engine),
        "W": engine.parallel.shard,
    }
    return stated(Item.GRADIENTS, name, gradient_shard_bytes, numbers)


def moments_bytes(*, b_o: int, N_t: int, W: int) -> int:
    """States of the optimizer under FSDP, from the end of the first step on.

    AdamW allocates its two moments in the first ``step()``, not before: a job that fits through
    its first step can fail at the wake-up that follows.

    Source: torch ``optim/adamw.py``.
    """
    return 2 * b_o * ceil_div(N_t, W)


def optimizer(model: ModelShape, engine: Engine, role: str = "actor") -> Term:
    """An FSDP engine's optimizer states; ``role`` begins the name."""
    numbers = _optimizer_numbers(model, engine) | ({} if engine.takes_steps else {"N_t": 0})
    return stated(Item.OPTIMIZER, f"{role}_optimizer", moments_bytes, numbers)


def _optimizer_numbers(model: ModelShape, engine: Engine) -> dict[str, float]:
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


def optimizer_step(model: ModelShape, engine: Engine) -> Term:
    """What an optimizer step of an FSDP engine allocates for itself: nothing where it is one kernel.

    Source: torch ``optim/adam.py`` (``_fused_adam``).
    """
    numbers = _optimizer_numbers(model, engine) | ({"N_t": 0} if engine.fused_optimizer else {})
    return stated(Item.OPTIMIZER, "optimizer_step", square_root_bytes, numbers)
