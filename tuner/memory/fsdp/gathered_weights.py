"""Bytes of weights that are whole on a GPU, under FSDP1 and FSDP2 alike.

Symbols: :math:`b_c` bytes of the compute dtype, :math:`N` parameters of the model, :math:`U_r` of the
unit that holds the output projection, :math:`U_l` of the layer that works, :math:`U_b` of the unit below
it, :math:`U_w` of all units that are whole where the forward pass frees none.
"""


def whole_model_bytes(*, b_c: int, N: int) -> int:
    """All weights, gathered, where layers are not resharded after the forward pass.

    Source: torch ``fully_shard(reshard_after_forward=False)``, ``ShardingStrategy.SHARD_GRAD_OP``.
    """
    return b_c * N


def kept_units_bytes(*, b_c: int, U_w: int) -> int:
    """The units that are whole while a layer works, where the forward pass frees none.

    In the forward pass all but the output projection's own; in the backward pass a unit is freed when its
    own is done.

    Source: torch ``_fsdp_param_group.py`` (``post_backward``), ``_runtime_utils.py``
    (``_post_backward_hook``).
    """
    return b_c * U_w


def head_unit_bytes(*, b_c: int, U_r: int) -> int:
    """The unit that holds the output projection, whole: the root, or the projection alone.

    Source: torch ``_fsdp_param.py`` (``init_unsharded_param``), ``_flat_param.py`` (``unshard``).
    """
    return b_c * U_r


def layer_unit_bytes(*, b_c: int, U_l: int) -> int:
    """One layer's weights, whole, while the layer works.

    Source: torch ``_fsdp_param.py`` (``init_unsharded_param``), ``_flat_param.py`` (``unshard``).
    """
    return b_c * U_l


def prefetched_unit_bytes(*, b_c: int, U_b: int) -> int:
    """The weights of the unit below, which are gathered while the backward pass works on a unit.

    Source: torch ``_fsdp_param_group.py`` (``_backward_prefetch``), ``_runtime_utils.py``
    (``_prefetch_handle``); verl wraps with ``BackwardPrefetch.BACKWARD_PRE``, torch's default.
    """
    return b_c * U_b
