"""Weights that FSDP gathers: one unit per decoder layer, and what is left in the root.

Symbols: :math:`U_r` parameters of the unit that holds the output projection, :math:`U_1` of the unit
that is gathered first, :math:`U_l` of the largest decoder layer; :math:`b_c` bytes of the compute
dtype, :math:`b_r` of the reduce dtype, :math:`b_s` of the stored dtype; :math:`c` is 2 under FSDP2,
which gathers into a buffer and copies out of it, and 1 under FSDP1. One GPU has nothing to gather: it
casts a unit's weights, which takes as much, and FSDP1 allocates nothing for weights that are stored in
the compute dtype.
"""

from tuner.dtypes import DType
from tuner.memory import model_states
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine


def gather_copies(engine: Engine) -> int:
    r"""Copies of a unit while it is gathered: :math:`c`.

    FSDP2 gathers into a buffer and copies out of it, 2; FSDP1 gathers in place, 1. A single GPU
    gathers nothing, 1.

    Source: torch ``_fsdp_param_group.py`` (``wait_for_unshard``), ``_fsdp_collectives.py``
    (``foreach_all_gather_copy_out``), ``_flat_param.py`` (``_all_gather_flat_param``).
    """
    return 2 if engine.backend is Backend.FSDP2 and engine.parallel.shard > 1 else 1


def prefetched_layers(engine: Engine) -> int:
    r"""Layers gathered ahead in a forward pass: :math:`p` is 1 with forward prefetch, else 0.

    Source: torch ``FullyShardedDataParallel(forward_prefetch=True)``; verl 0.9.1
    ``utils/fsdp_utils.py`` (``set_modules_to_forward_prefetch`` under FSDP2).
    """
    return 1 if engine.forward_prefetch and engine.prefetch_effective else 0


def is_unsharded(engine: Engine) -> bool:
    """Whether FSDP1 works without shards: torch takes ``NO_SHARD`` for a group of one GPU.

    A unit's copy in the compute dtype is then made when the unit runs and freed after it, that of the root
    as well, whatever ``reshard_after_forward`` says.

    Source: torch ``_init_utils.py`` (``_init_core_state``), ``_flat_param.py`` (``pre_unshard``,
    ``_use_low_precision_shard``, ``post_reshard``).
    """
    return engine.backend is Backend.FSDP and engine.parallel.shard == 1


def has_held_weights(engine: Engine) -> bool:
    """Whether the modules hold the stored weights themselves, so that nothing takes these off the card.

    Without shards and without a cast, the weights that a module works with are views of the stored ones.
    FSDP moves the flat parameter to the host, verl's offload as well; the views stay, and with them the
    memory on the card, until the next forward pass makes new ones. With ``use_orig_params``, which verl
    leaves off, they would be made at once.

    Source: torch ``_flat_param.py`` (``_use_unsharded_views``, ``_use_sharded_flat_param``,
    ``flat_param_to``); verl ``utils/fsdp_utils.py`` (``offload_fsdp_model_to_cpu``).
    """
    return is_unsharded(engine) and engine.stored_dtype is engine.compute_dtype


def works_in_place(engine: Engine) -> bool:
    """Whether units work with the stored weights themselves, so that nothing is gathered or cast.

    Under a CPU offload policy each unit is fetched from the host instead.

    Source: torch ``_flat_param.py`` (``pre_unshard``, ``needs_unshard``).
    """
    return has_held_weights(engine) and not engine.streamed_offload


def keeps_layers(engine: Engine) -> bool:
    """Whether a forward pass leaves its layers whole: nothing is resharded, or fetched weights are held."""
    if is_unsharded(engine):
        return has_held_weights(engine) and engine.streamed_offload
    return not engine.reshard_after_forward


def wraps_embedding(model: ModelShape, engine: Engine) -> bool:
    """Whether the embedding is a unit of its own: under FSDP2, where nothing shares it.

    Source: verl ``utils/fsdp_utils.py`` (``apply_fsdp2``).
    """
    return engine.backend is Backend.FSDP2 and not model.tied_embeddings


def wraps_head(model: ModelShape, engine: Engine) -> bool:
    """Whether the output projection is a unit of its own; never a value head.

    Source: verl 0.7.1 ``utils/fsdp_utils.py`` (``_select_fsdp2_wrap_targets``, by the name ``lm_head``).
    """
    return wraps_embedding(model, engine) and engine.separate_embedding_units and not model.value_head


def root_parameters(model: ModelShape, engine: Engine) -> int:
    """Parameters that FSDP leaves in the root unit: the final norm, and what is no unit of its own."""
    embedding = 0 if wraps_embedding(model, engine) else model.embedding_parameters
    head = 0 if wraps_head(model, engine) else model.head_parameters
    return embedding + head + model.final_norm_parameters


def head_unit_parameters(model: ModelShape, engine: Engine) -> int:
    """The unit that is whole while the output projection runs: the root, or the projection alone."""
    return model.head_parameters if wraps_head(model, engine) else root_parameters(model, engine)


def first_unit_parameters(model: ModelShape, engine: Engine) -> int:
    """The unit of the embedding, gathered first: the root, or the embedding alone."""
    if wraps_embedding(model, engine):
        return model.embedding_parameters
    return root_parameters(model, engine)


def cast_parameters(model: ModelShape, engine: Engine) -> int:
    """This GPU's share of the root that is cast to the compute dtype; 0 where it is stored in that."""
    if engine.stored_dtype is engine.compute_dtype or engine.parallel.shard == 1:
        return 0
    return model_states.shard(head_unit_parameters(model, engine), engine)


def gathered_root_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The root while FSDP1 gathers it: :math:`b_c (U_r + U_c)`, :math:`U_c = \lceil U_r / W \rceil`.

    The share that this GPU stores is cast to the compute dtype first, and freed after the gather;
    :math:`U_c = 0` where it is stored in that dtype. One GPU alone works with what it has cast, and
    :math:`U_c = 0` as well.

    Source: torch ``_flat_param.py`` (``_use_low_precision_shard``, ``_free_low_precision_sharded_param``).
    """
    parameters = head_unit_parameters(model, engine) + cast_parameters(model, engine)
    return parameters * engine.compute_dtype.bytes


def first_layer_gather_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Gathered weights when the first layer begins under FSDP1: :math:`b_c (U_1 + U_l)`.

    Source: torch ``_runtime_utils.py`` (``_pre_forward_unshard``).
    """
    units = first_unit_parameters(model, engine) + model.largest_layer_parameters
    return units * engine.compute_dtype.bytes


def layer_gather_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Gathered weights inside one layer under FSDP1, the root unit apart.

    .. math:: (1 + p) \, b_c \, U_l

    With forward prefetch, :math:`p = 1`, the next layer's weights arrive during this layer.

    Source: torch ``_runtime_utils.py`` (``_pre_forward_unshard``, ``_prefetch_handle``).
    """
    copies = 1 + prefetched_layers(engine)
    return copies * model.largest_layer_parameters * engine.compute_dtype.bytes


def layer_unit_bytes(model: ModelShape, engine: Engine) -> int:
    r"""One layer's weights, whole: :math:`b_c U_l`.

    In the backward pass twice: the weights of the layer that works, and those of the layer below,
    which are gathered meanwhile.

    Source: torch ``_fsdp_param_group.py`` (``_backward_prefetch``), ``_runtime_utils.py``
    (``_prefetch_handle``); verl wraps with ``BackwardPrefetch.BACKWARD_PRE``, torch's default.
    """
    return model.largest_layer_parameters * engine.compute_dtype.bytes


def head_gather_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The unit of the output projection, whole: :math:`b_c U_r`.

    Source: torch ``_fsdp_param.py`` (``init_unsharded_param``), ``_flat_param.py`` (``unshard``).
    """
    return head_unit_parameters(model, engine) * engine.compute_dtype.bytes


def root_gather_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The head's unit while it is gathered for the backward pass.

    .. math:: c \, b_c U_r

    FSDP2 holds the gather's buffer and the weights copied out of it at once.

    Source: torch ``_fsdp_collectives.py`` (``foreach_all_gather_copy_out``).
    """
    return gather_copies(engine) * head_gather_bytes(model, engine)


def whole_model_bytes(model: ModelShape, engine: Engine) -> int:
    r"""All weights, gathered: :math:`b_c N`, where layers are not resharded after the forward pass.

    Source: torch ``fully_shard(reshard_after_forward=False)``, ``ShardingStrategy.SHARD_GRAD_OP``.
    """
    return model.parameters * engine.compute_dtype.bytes


def head_gradient_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Gradient of the output projection before it is reduced: :math:`b_c V H`.

    0 under LoRA; that of a value head's single column is not counted.

    Source: torch ``linear_backward``; the gradient has the dtype of the gathered weight.
    """
    if engine.lora is not None or model.value_head:
        return 0
    return model.vocab * model.hidden * engine.compute_dtype.bytes


def deferred_gradient_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Full gradients kept between micro-batches when their synchronisation is deferred.

    .. math:: b_a N_t, \quad b_a = b_r \text{ under FSDP2,} \quad b_a = b_c \text{ under FSDP1}

    Not divided by the number of GPUs. Under LoRA those of the adapters alone.

    Source: torch ``_fsdp_param.py`` (``unsharded_accumulated_grad``), measured with verl 0.9.1.
    """
    return model_states.trained_parameters(model, engine) * accumulated_dtype(engine).bytes


def accumulated_dtype(engine: Engine) -> DType:
    """The dtype of gradients that wait for their reduction."""
    return engine.reduce_dtype if engine.backend is Backend.FSDP2 else engine.compute_dtype
