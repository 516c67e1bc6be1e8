"""Bytes of units under FSDP2, as torch gathers them into a buffer and reduces their gradients.

Symbols: :math:`U_l` parameters of the unit that works, :math:`U_a` of the unit that worked before it, in a
forward pass, or is above it, in a backward pass; :math:`U_r` of the unit that holds the output projection,
:math:`U_e` of the one that holds the embedding, :math:`U` of the one whose gradient is reduced,
:math:`U_k` of all whose backward pass is not done; :math:`b_c` bytes of the compute dtype, :math:`b_r` of
the reduce dtype; :math:`c` is 2, the weights and the buffer they are gathered into, and 1 on a single GPU,
which gathers nothing.
"""

from tuner.memory.ledger.formula import ceil_div, largest
from tuner.workload import Engine

# -- gathered weights -------------------------------------------------------------------


def gather_copies(engine: Engine) -> int:
    r"""Copies of a unit while it is gathered: :math:`c`.

    FSDP2 gathers into a buffer and copies out of it, 2; a single GPU gathers nothing, 1.

    Source: torch ``_fsdp_param_group.py`` (``wait_for_unshard``), ``_fsdp_collectives.py``
    (``foreach_all_gather_copy_out``).
    """
    return 2 if engine.parallel.shard > 1 else 1


def gather_bytes(*, b_c: int, c: int, U_l: int, U_a: int) -> int:
    """While a unit is gathered in a forward pass: its weights, its buffer, and the buffer before it.

    The buffer of a gather is kept until the next unit's weights have been copied out of theirs: a
    local variable holds it. The weights of the unit before are gone by then.

    Source: torch ``_fsdp_param_group.py`` (``wait_for_unshard``, ``prev_all_gather_state``).
    """
    return b_c * (c * U_l + (c - 1) * U_a)


def gather_buffers_bytes(*, b_c: int, c: int, U_l: int, U_a: int) -> int:
    """The two buffers of gathers, where no weights are freed: those of the unit are counted with all others.

    Source: torch ``_fsdp_param_group.py`` (``wait_for_unshard``, ``prev_all_gather_state``).
    """
    return b_c * (c - 1) * (U_l + U_a)


def cast_shard_bytes(*, b_c: int, U_e: int, W: int) -> int:
    """What a rank puts into the first gather: its share of the unit, in the compute dtype.

    Nothing where the share is stored in that dtype, or is the whole unit. It is freed when the buffer
    has it, before the weights are copied out.

    Source: torch ``_fsdp_param.py`` (``all_gather_inputs``), ``_fsdp_collectives.py``
    (``foreach_all_gather``).
    """
    return b_c * ceil_div(U_e, W)


def cast_unit_bytes(*, b_c: int, U_e: int, U_v: int) -> int:
    """While a single GPU makes the first unit whole: its weights, and the cast of its largest matrix.

    Nothing is gathered; each weight is cast and then copied to where the unit's weights lie. :math:`U_v` is
    the matrix of the embedding.

    Source: torch ``_fsdp_param_group.py`` (``wait_for_unshard``, a mesh of one rank).
    """
    return b_c * (U_e + U_v)


def working_bytes(*, b_c: int, c: int, p: int, U_l: int) -> int:
    """Inside a unit in a forward pass: its weights, its buffer, and with forward prefetch the next one.

    Source: torch ``_fsdp_param_group.py`` (``wait_for_unshard``), ``_fsdp_state.py`` (``_pre_forward``).
    """
    return b_c * (c + p) * U_l


def buffer_bytes(*, b_c: int, c: int, U_l: int) -> int:
    """The buffer that the gather of a unit leaves.

    The model's own forward pass frees it when it returns; the output projection works before that.

    Source: torch ``_fsdp_state.py`` (``_post_forward``).
    """
    return b_c * (c - 1) * U_l


def head_gather_bytes(*, b_c: int, c: int, U_r: int) -> int:
    """The head's unit while it is gathered for the backward pass: its buffer, and what is copied out of it.

    Source: torch ``_fsdp_collectives.py`` (``foreach_all_gather_copy_out``).
    """
    return c * b_c * U_r


def embedding_unit_bytes(*, b_c: int, U_e: int) -> int:
    """The unit that holds the embedding, whole when the embedding is differentiated.

    Source: torch ``_fsdp_param.py`` (``init_unsharded_param``).
    """
    return b_c * U_e


# -- gradients --------------------------------------------------------------------------


def read_gradient_bytes(*, b_r: int, U_a: int) -> int:
    """The gradient of the unit above, in the reduce dtype, which its reduction has read.

    What a reduce-scatter reads is kept until the backward pass of the unit below is done.

    Source: torch ``_fsdp_param_group.py`` (``post_backward``, ``reduce_scatter_state``).
    """
    return b_r * U_a


def root_reduction_bytes(*, b_r: int, b_c: int, U: int, W: int) -> int:
    """While the gradient of the root is reduced.

    Its copy in the reduce dtype; beside it first the gradient itself, then the share of the sum. The
    unit's weights have been freed before.

    Source: torch ``_fsdp_collectives.py`` (``foreach_reduce``), ``_fsdp_param_group.py``
    (``post_backward``).
    """
    return b_r * U + largest(b_c * U, b_r * ceil_div(U, W))


def matrix_reduction_bytes(*, b_c: int, b_r: int, U: int, W: int) -> int:
    """While the gradient of a unit of one matrix is reduced, the embedding or the output projection.

    As :func:`root_reduction_bytes`, but the gradient is there to the end: a local variable holds that of a
    unit's last parameter.

    Source: torch ``_fsdp_collectives.py`` (``foreach_reduce``, ``unsharded_grad``).
    """
    return (b_c + b_r) * U + b_r * ceil_div(U, W)


def holds_all_reduced(engine: Engine, *, accumulates: bool) -> bool:
    """Whether what was all-reduced is something beside the gradients; ``accumulates``: onto earlier ones."""
    if engine.parallel.shard == engine.parallel.gpus:
        return False
    return accumulates or engine.stored_dtype is not engine.reduce_dtype


def all_reduced_bytes(*, b_r: int, N_t: int, U_k: int, W: int) -> int:
    """What the all-reduces between copies of the states have worked on.

    Every unit holds its own until the whole backward pass is done. It is the gradient itself, unless
    that has another dtype or is added to one of an earlier micro-batch.

    Source: torch ``_fsdp_param_group.py`` (``_all_reduce_state``, ``finalize_backward``),
    ``_fsdp_collectives.py`` (``foreach_reduce``, ``all_reduce_input``).
    """
    return b_r * (ceil_div(N_t, W) - ceil_div(U_k, W))
