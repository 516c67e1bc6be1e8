"""Bytes of gradients, whole or reduced, under FSDP1 and FSDP2 alike.

Symbols: :math:`N_t` trained parameters, :math:`W` ranks that share one copy of the states, :math:`U_k`
trained parameters of all units whose gradients are not reduced; :math:`b_c` bytes of the compute dtype,
:math:`b_s` of the stored dtype, :math:`b_a` of a gradient that waits for its reduction.
"""

from tuner.dtypes import DType
from tuner.memory.ledger.formula import ceil_div
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine


def head_gradient_bytes(*, b_c: int, V: int, H: int) -> int:
    """Gradient of the output projection before it is reduced.

    None under LoRA; that of a value head's single column is not counted.

    Source: torch ``linear_backward``; the gradient has the dtype of the gathered weight.
    """
    return b_c * V * H


def layer_gradient_bytes(*, b_c: int, U_g: int) -> int:
    """Gradients of a layer's weights, as far as its backward pass has made them: of :math:`U_g` parameters.

    Source: torch ``linear_backward``; the gradient has the dtype of the gathered weight.
    """
    return b_c * U_g


def embedding_gradients(model: ModelShape) -> int:
    """Gradients of the embedding's matrix that exist at once: one, or three of a shared matrix."""
    return 3 if model.shares_embedding else 1


def embedding_gradient_bytes(*, n_g: int, b_c: int, U_v: int) -> int:
    """Gradients of the embedding at the end of the backward pass.

    :math:`U_v` are the parameters of the embedding. Of a matrix that is the output projection, too,
    :math:`n_g = 3`: autograd keeps the projection's gradient until the embedding's has come, and adds
    them out of place. Otherwise :math:`n_g = 1`.

    Source: torch ``autograd/input_buffer.cpp`` (``InputBuffer::add``), ``EmbeddingBackward.cpp``.
    """
    return n_g * b_c * U_v


def reduced_gradient_bytes(*, b_s: int, N_t: int, U_k: int, W: int) -> int:
    """Reduced gradients of the units above, between the backward passes of two units.

    Source: torch ``_fsdp_collectives.py`` (``foreach_reduce``, ``new_sharded_grad``).
    """
    return b_s * (ceil_div(N_t, W) - ceil_div(U_k, W))


def accumulated_dtype(engine: Engine) -> DType:
    """The dtype of gradients that wait for their reduction: the reduce dtype, or FSDP1's compute dtype."""
    return engine.reduce_dtype if engine.backend is Backend.FSDP2 else engine.compute_dtype


def deferred_gradient_bytes(*, b_a: int, U_k: int) -> int:
    r"""Full gradients kept between micro-batches when their synchronisation is deferred.

    Not divided by the number of GPUs. Under LoRA those of the adapters alone. :math:`U_k = N_t` until the
    last micro-batch, whose backward pass reduces them unit by unit; :math:`b_a = b_r` under FSDP2,
    :math:`b_a = b_c` under FSDP1.

    Source: torch ``_fsdp_param.py`` (``unsharded_accumulated_grad``, ``to_accumulated_grad_if_needed``),
    ``_runtime_utils.py`` (``_post_backward_hook``, ``_sync_gradients``), measured with verl 0.9.1.
    """
    return b_a * U_k
