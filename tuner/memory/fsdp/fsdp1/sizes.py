"""Bytes of units under FSDP1, as torch gathers one, joins its gradients, reduces them and frees them.

The weights of a unit are one flat parameter, and autograd joins their gradients into one. Symbols:
:math:`U_r` parameters of the root, :math:`U_1` of the unit that is gathered first, :math:`U_l` of the
largest decoder layer, :math:`U` trained parameters of the unit whose gradient is reduced; :math:`W` ranks
that share one copy of the states; :math:`b_c` bytes of the compute dtype, :math:`b_r` of the reduce dtype,
:math:`b_g` of the cast of a gradient before it is reduced and :math:`b_t` after it, 0 where there is none.
"""

from tuner.memory.fsdp import units
from tuner.memory.fsdp.states import shard
from tuner.memory.ledger.formula import ceil_div, largest
from tuner.model_shape import ModelShape
from tuner.workload import Engine

# -- gathered weights -------------------------------------------------------------------


def cast_parameters(model: ModelShape, engine: Engine) -> int:
    """This GPU's share of the root that is cast to the compute dtype; 0 where it is stored in that."""
    if engine.stored_dtype is engine.compute_dtype or engine.parallel.shard == 1:
        return 0
    return shard(units.root_parameters(model, engine), engine)


def root_gather_bytes(*, b_c: int, U_r: int, U_c: int) -> int:
    r"""The root while it is gathered: :math:`U_c = \lceil U_r / W \rceil`.

    The share that this GPU stores is cast to the compute dtype first, and freed after the gather;
    :math:`U_c = 0` where it is stored in that dtype. One GPU alone works with what it has cast, and
    :math:`U_c = 0` as well.

    Source: torch ``_flat_param.py`` (``_use_low_precision_shard``, ``_free_low_precision_sharded_param``).
    """
    return b_c * (U_r + U_c)


def first_units_bytes(*, b_c: int, U_1: int, U_l: int) -> int:
    """Gathered weights when the first layer begins.

    Source: torch ``_runtime_utils.py`` (``_pre_forward_unshard``).
    """
    return b_c * (U_1 + U_l)


def layer_units_bytes(*, b_c: int, p: int, U_l: int) -> int:
    """Gathered weights inside one layer in a forward pass, the root unit apart.

    With forward prefetch, :math:`p = 1`, the next layer's weights arrive during this layer.

    Source: torch ``_runtime_utils.py`` (``_pre_forward_unshard``, ``_prefetch_handle``).
    """
    return (1 + p) * b_c * U_l


# -- gradients --------------------------------------------------------------------------


def joined_tensors(engine: Engine) -> int:
    """Tensors of a unit's size while its gradients are joined, :math:`n_j`.

    They are the unit's weights, where these were gathered, the gradients, and what these become.

    Source: torch ``_flat_param.py`` (``_get_unflat_views_unaligned``), whose ``split`` is differentiated.
    """
    return 2 if units.works_in_place(engine) else 3


def cast_gradient_bytes(engine: Engine, *, accumulates: bool) -> int:
    """Bytes of a number in the cast of a gradient before it is reduced, :math:`b_g`; 0 without a cast.

    ``accumulates``: onto a gradient of an earlier micro-batch. One GPU adds to the gradient that the
    optimizer will read, in the stored dtype; shards are added up after the reduction.

    Source: torch ``_runtime_utils.py`` (``_post_backward_hook``).
    """
    in_stored_dtype = accumulates and units.is_unsharded(engine)
    dtype = engine.stored_dtype if in_stored_dtype else engine.compute_dtype
    return 0 if dtype is engine.reduce_dtype else engine.reduce_dtype.bytes


def cast_share_bytes(engine: Engine) -> int:
    """Bytes of a number in the cast of a reduced gradient to the stored dtype, :math:`b_t`; 0 without a cast.

    Source: torch ``_runtime_utils.py`` (``_cast_grad_to_param_dtype``).
    """
    return 0 if engine.reduce_dtype is engine.stored_dtype else engine.stored_dtype.bytes


def sharded_reduction_bytes(*, b_c: int, b_g: int, b_r: int, b_t: int, U: int, W: int) -> int:
    """The most that a unit's gradient needs at the end of its backward pass, of several GPUs.

    First its gradients are joined: the unit's weights, the gradients, and what these become. Then they
    are reduced, when the weights have been freed: the gradient as it was joined, its cast to the reduce
    dtype, the share of the sum, and the cast of that to the stored dtype.

    Source: torch ``_flat_param.py`` (``_get_unflat_views_unaligned``), whose ``split`` is differentiated;
    ``_runtime_utils.py`` (``_post_backward_hook``, ``_reduce_grad``, ``_cast_grad_to_param_dtype``).
    """
    return largest(3 * b_c * U, (b_c + b_g) * U + (b_r + b_t) * ceil_div(U, W))


def unsharded_reduction_bytes(*, n_j: int, b_c: int, b_g: int, b_t: int, U: int) -> int:
    """The most that a unit's gradient needs on one GPU, which reduces in place and has no share.

    Where units work with the stored weights there are none beside the gradients that are joined,
    :math:`n_j = 2` instead of 3. The gradient that is cast has the stored dtype where it has been added
    to one of an earlier micro-batch, which is counted with the gradients.

    Source: torch ``_runtime_utils.py`` (``_post_backward_hook``, ``_reduce_grad_no_shard``,
    ``_cast_grad_to_param_dtype``).
    """
    return largest(n_j * b_c * U, (b_c + b_g + b_t) * U)
