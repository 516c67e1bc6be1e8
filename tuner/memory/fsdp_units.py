"""Weights that FSDP gathers: one unit per decoder layer, and what is left in the root.

Symbols: :math:`U_r` parameters of the unit that holds the output projection, :math:`U_l` of the
largest decoder layer, :math:`b_c` bytes of the compute dtype, :math:`b_r` of the reduce dtype.
"""

from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine


def _gather_buffers(engine: Engine) -> int:
    """Copies a gathered unit costs: FSDP2 gathers into a buffer and copies out of it."""
    return 2 if engine.backend is Backend.FSDP2 else 1


def head_unit_parameters(model: ModelShape, engine: Engine) -> int:
    """The unit that is whole while the output projection runs.

    The root unit (embedding, final norm and, when untied, the projection), or the projection
    alone where embedding and head are units of their own.
    """
    if engine.separate_embedding_units and not model.tied_embeddings:
        return model.head_parameters
    return model.embedding_parameters + model.head_parameters + model.norm_parameters


def first_unit_parameters(model: ModelShape, engine: Engine) -> int:
    """The unit that is gathered first: the root, or the embedding where it stands alone."""
    if engine.separate_embedding_units and not model.tied_embeddings:
        return model.embedding_parameters
    return head_unit_parameters(model, engine)


def first_layer_gather_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Gathered weights when the first layer begins.

    .. math:: c \, b_c (U_r + U_l), \quad c = 2 \text{ under FSDP2, else } 1

    FSDP2 frees the buffer of a gather only when the next unit's gather has finished, so the
    buffers of both units exist together with both units' weights.

    Source: torch ``_fsdp_collectives.py`` (``foreach_all_gather``), ``_fsdp_param_group.py``
    (``all_gather_state``).
    """
    units = first_unit_parameters(model, engine) + model.largest_layer_parameters
    return _gather_buffers(engine) * units * engine.compute_dtype.bytes


def layer_gather_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Gathered weights inside one layer, the root unit apart.

    .. math:: (c + p) \, b_c \, U_l

    :math:`p` is 1 with forward prefetch: the next layer's weights arrive during this layer.
    """
    prefetched = 1 if engine.forward_prefetch and engine.prefetch_effective else 0
    return (
        (_gather_buffers(engine) + prefetched) * model.largest_layer_parameters * engine.compute_dtype.bytes
    )


def last_buffer_bytes(model: ModelShape, engine: Engine) -> int:
    """The last layer's gather buffer, which FSDP2 still holds at the output projection."""
    return (_gather_buffers(engine) - 1) * model.largest_layer_parameters * engine.compute_dtype.bytes


def head_gather_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The unit of the output projection, whole: :math:`b_c U_r`."""
    return head_unit_parameters(model, engine) * engine.compute_dtype.bytes


def root_gather_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The head's unit while it is gathered for the backward pass.

    .. math:: c \, b_c U_r

    FSDP2 holds the gather's buffer and the weights copied out of it at once.
    """
    return _gather_buffers(engine) * head_gather_bytes(model, engine)


def whole_model_bytes(model: ModelShape, engine: Engine) -> int:
    r"""All weights, gathered: :math:`b_c N`, where layers are not resharded after the forward pass."""
    return model.parameters * engine.compute_dtype.bytes


def head_gradient_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Gradient of the output projection before it is reduced: :math:`b_c V H`; 0 under LoRA."""
    if engine.lora is not None:
        return 0
    return model.vocab * model.hidden * engine.compute_dtype.bytes


def layer_gradient_bytes(model: ModelShape, engine: Engine) -> int:
    r"""A layer's unsharded gradient and its copy in the reduce dtype.

    .. math:: (b_c + b_r) \, U_l

    Source: torch ``_fsdp_collectives.py`` (``foreach_reduce``).
    """
    per_parameter = engine.compute_dtype.bytes + engine.reduce_dtype.bytes
    trained = (
        model.largest_layer_parameters if engine.lora is None else engine.lora.parameters // model.layers
    )
    return per_parameter * trained


def head_reduce_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The root unit's gradient while it is reduced, after the last layer.

    .. math:: (b_c + b_r) \, U_r
    """
    if engine.lora is not None:
        return 0
    per_parameter = engine.compute_dtype.bytes + engine.reduce_dtype.bytes
    return per_parameter * head_unit_parameters(model, engine)


def deferred_gradient_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Full gradients kept between micro-batches when their synchronisation is deferred.

    .. math:: b_r N \text{ under FSDP2,} \quad b_c N \text{ under FSDP1}

    Not divided by the number of GPUs.

    Source: torch ``_fsdp_param.py`` (``unsharded_accumulated_grad``), measured with verl 0.9.1.
    """
    if engine.lora is not None:
        return 0
    accumulated = engine.reduce_dtype if engine.backend is Backend.FSDP2 else engine.compute_dtype
    return model.parameters * accumulated.bytes
