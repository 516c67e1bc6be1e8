"""Parameters, gradients and optimizer states of a Megatron engine, of which each rank holds a slice.

Symbols: :math:`N_p` parameters of one rank, :math:`N_g` those with a place in the gradient buffer,
:math:`N_o` those whose optimizer states the rank holds, :math:`b_c` bytes of the compute dtype.
"""

from math import ceil

from tuner.dtypes import DType
from tuner.evidence import Evidence
from tuner.memory.ledger.stated_terms import stated
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.megatron.grid import local_parameters, optimizer_ranks, optimizer_share
from tuner.model_shape import ModelShape
from tuner.workload import Engine


def adapters(engine: Engine) -> int:
    """Adapter parameters of one rank: of a pair one matrix is divided, counted as if both were."""
    if engine.lora is None:
        return 0
    return ceil(engine.lora.parameters / (engine.parallel.tensor * engine.parallel.pipeline))


def stored_parameters(model: ModelShape, engine: Engine) -> int:
    """Parameters that one rank stores, with its adapters."""
    return local_parameters(model, engine).total + adapters(engine)


def gradient_parameters(model: ModelShape, engine: Engine) -> int:
    """Parameters of one rank that have a place in the gradient buffer."""
    return local_parameters(model, engine).total if engine.lora is None else adapters(engine)


def optimizer_parameters(model: ModelShape, engine: Engine) -> int:
    """Parameters whose optimizer states one rank holds, adapters under LoRA."""
    if engine.lora is None:
        return optimizer_share(model, engine)
    return ceil(adapters(engine) / optimizer_ranks(engine)[0])


def slice_bytes(*, b_c: int, N_p: int) -> int:
    """Weights as one GPU stores them between passes, under Megatron: its own slice, in the compute dtype.

    It is stored once: the distributed optimizer's buffer of weights is what the weights are views of.

    Source: Megatron-Core ``distributed/param_and_grad_buffer.py`` (``param.data = new_param_data``).
    """
    return b_c * N_p


def parameters(model: ModelShape, engine: Engine, role: str = "actor") -> Term:
    """A Megatron engine's weights as they are stored; ``role`` begins the name."""
    numbers = {"b_c": engine.compute_dtype.bytes, "N_p": stored_parameters(model, engine)}
    return stated(Item.PARAMETERS, f"{role}_parameters", slice_bytes, numbers)


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
    """A Megatron engine's gradient buffer, which is there at any time."""
    numbers = {"b_r": engine.reduce_dtype.bytes, "N_g": gradient_parameters(model, engine)}
    return stated(Item.GRADIENTS, name, gradient_buffer_bytes, numbers)


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


def optimizer_numbers(model: ModelShape, engine: Engine) -> dict[str, float]:
    """The symbols of a Megatron optimizer."""
    fraction = engine.optimizer_offload_fraction
    return {
        "N_o": optimizer_parameters(model, engine),
        "b_m": engine.main_weight_bytes,
        "f_m": fraction if engine.main_weights_offloaded else 0,
        "b_o": engine.optimizer_dtype.bytes,
        "f_o": fraction,
    }


def optimizer(model: ModelShape, engine: Engine, role: str = "actor") -> Term:
    """A Megatron engine's optimizer states; ``role`` begins the name.

    Main weights are there from the start; moments are made by the first step.

    Source: Megatron-Core ``optimizer/distrib_optimizer.py`` (``_build_model_and_main_param_groups``, when
    it is made), Transformer Engine ``optimizers/fused_adam.py`` (``step``: ``if len(state) == 0``).
    """
    numbers = optimizer_numbers(model, engine) | ({} if engine.takes_steps else {"b_o": 0})
    return stated(Item.OPTIMIZER, f"{role}_optimizer", main_weights_and_moments_bytes, numbers)


def main_weights(model: ModelShape, engine: Engine, role: str) -> Term:
    """The main weights alone, which no state of the optimizer is, where only states are moved.

    Source: NeMo-RL v0.7.0 ``models/policy/workers/megatron_policy_worker.py`` (``move_optimizer``: states).
    """
    numbers = {**optimizer_numbers(model, engine), "b_o": 0}
    return stated(Item.OPTIMIZER, f"{role}_main_weights", main_weights_and_moments_bytes, numbers)


def copied_gradient_bytes(*, N_o: int, f_o: float) -> float:
    """What an optimizer step allocates under Megatron.

    Its fused optimizers work in place; gradients that are not float32 are copied into it for the share
    of the rank, unless the optimizer is precision-aware.

    Source: Megatron-Core ``optimizer/distrib_optimizer.py`` (``_copy_model_grads_to_main_grads``).
    """
    return N_o * (1 - f_o) * 4


def optimizer_step(model: ModelShape, engine: Engine) -> Term:
    """What an optimizer step of a Megatron engine allocates for itself."""
    copied = engine.reduce_dtype is not DType.FLOAT32 and engine.main_weight_bytes == DType.FLOAT32.bytes
    numbers = {
        "N_o": optimizer_parameters(model, engine) if copied else 0,
        "f_o": engine.optimizer_offload_fraction,
    }
    evidence = Evidence.MODELLED
    return stated(Item.OPTIMIZER, "optimizer_step", copied_gradient_bytes, numbers, evidence=evidence)
