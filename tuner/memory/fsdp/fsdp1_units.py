r"""Gradients under FSDP1, as torch joins, reduces and frees those of one unit.

The weights of a unit are one flat parameter, and autograd joins their gradients into one. Symbols:
:math:`U` trained parameters of the unit, :math:`U_k` of all units whose gradients are not reduced;
:math:`N_t` trained parameters, :math:`W` ranks that share one copy of the states; :math:`b_c` bytes of
the compute dtype, :math:`b_r` of the reduce dtype, :math:`b_s` of the stored dtype; :math:`[\ldots]` is 1
where the condition holds and 0 elsewhere.
"""

from math import ceil

from tuner.memory.fsdp import units
from tuner.workload import Engine


def joined_bytes(unit: int, engine: Engine) -> int:
    r"""While the gradients of a unit are joined: its weights, the gradients, and what they become.

    .. math:: 3 \, b_c \, U \qquad 2 \, b_c \, U \;\text{(weights used in place)}

    Source: torch ``_flat_param.py`` (``_get_unflat_views_unaligned``), whose ``split`` is differentiated.
    """
    copies = 2 if units.works_in_place(engine) else 3
    return copies * engine.compute_dtype.bytes * unit


def casts_gradient(engine: Engine, *, accumulates: bool) -> bool:
    """Whether a gradient is cast before it is reduced; ``accumulates``: onto one of an earlier micro-batch.

    One GPU adds to the gradient that the optimizer will read, in the stored dtype; shards are added up
    after the reduction.

    Source: torch ``_runtime_utils.py`` (``_post_backward_hook``).
    """
    in_stored_dtype = accumulates and units.is_unsharded(engine)
    dtype = engine.stored_dtype if in_stored_dtype else engine.compute_dtype
    return dtype is not engine.reduce_dtype


def reduced_bytes(unit: int, engine: Engine, *, accumulates: bool) -> int:
    r"""While the gradient of a unit is reduced; its weights have been freed.

    .. math::
        b_c U + [b_g \neq b_r] \, b_r U
        + (b_r + [b_r \neq b_s] \, b_s) \left\lceil \frac{U}{W} \right\rceil \;\text{(sharded)}
        \qquad
        b_c U + [b_g \neq b_r] \, b_r U + [b_r \neq b_s] \, b_s U \;\text{(one GPU)}

    The gradient as it was joined, its cast to the reduce dtype, the share of the sum, and the cast of that
    to the stored dtype. One GPU reduces in place and has no share. The gradient :math:`b_g` that is cast
    has the compute dtype; on one GPU it has the stored dtype where it has been added to an earlier one,
    which is counted with the gradients.

    Source: torch ``_runtime_utils.py`` (``_post_backward_hook``, ``_reduce_grad``,
    ``_reduce_grad_no_shard``, ``_cast_grad_to_param_dtype``).
    """
    unsharded = units.is_unsharded(engine)
    share = ceil(unit / engine.parallel.shard)
    size = engine.compute_dtype.bytes * unit
    if casts_gradient(engine, accumulates=accumulates):
        size += engine.reduce_dtype.bytes * unit
    if not unsharded:
        size += engine.reduce_dtype.bytes * share
    if engine.reduce_dtype is not engine.stored_dtype:
        size += engine.stored_dtype.bytes * share
    return size


def reduction_bytes(unit: int, engine: Engine, *, accumulates: bool) -> int:
    r"""The most that a unit's gradient needs at the end of its backward pass: :math:`\max(joined, reduced)`.

    Of :func:`joined_bytes` and :func:`reduced_bytes`, which follow one another.

    Source: torch ``_runtime_utils.py`` (``_post_backward_hook``).
    """
    return max(joined_bytes(unit, engine), reduced_bytes(unit, engine, accumulates=accumulates))


def waiting_gradient_bytes(waiting: int, engine: Engine) -> int:
    r"""Gradients of earlier micro-batches whose reduction is deferred: :math:`b_a U_k`, :math:`b_a = b_c`.

    Source: torch ``_runtime_utils.py`` (``_post_backward_hook``, ``_sync_gradients``).
    """
    return units.accumulated_dtype(engine).bytes * waiting
