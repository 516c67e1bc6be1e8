"""Sizes of single tensors of a model, which travel or are saved one after the other."""

from tuner.model_shape import ModelShape


def largest_tensor_parameters(model: ModelShape) -> int:
    r"""The largest tensor of a model, :math:`E`.

    .. math:: E = \max(V H, 2 n_x H I_e)

    The embedding, or gate and up projections of a layer's :math:`n_x` experts of width :math:`I_e`,
    which are one tensor in current transformers. Megatron has each expert's apart, see
    :func:`~tuner.memory.weight_sync.megatron_tensors.gathered_experts_bytes`.
    """
    return max(model.embedding_parameters, gate_and_up_parameters(model))


def gate_and_up_parameters(model: ModelShape) -> int:
    """Gate and up projections of all experts of a layer, one tensor in current transformers."""
    return model.expert_parameters * 2 // 3


def largest_layer_tensor_parameters(model: ModelShape) -> int:
    """The largest tensor of a layer."""
    return max(model.hidden * model.intermediate, gate_and_up_parameters(model))


def parameters_behind_largest(model: ModelShape) -> int:
    """What comes behind the largest tensor of a layer: the down projections of its experts, if it has any.

    The three matrices of a dense layer are alike, and the last of them has norms alone behind it. A router is
    small.

    Source: transformers 5.10 ``models/qwen3_moe/modeling_qwen3_moe.py`` (``Qwen3MoeExperts``).
    """
    gate_and_up = gate_and_up_parameters(model)
    dense = model.hidden * model.intermediate
    return model.expert_parameters - gate_and_up if gate_and_up > dense else 0


def largest_dense_tensor(model: ModelShape) -> int:
    r"""The largest tensor of Megatron's that is no routed expert's, :math:`E_m`.

    .. math:: E_m = \max(V H, 2 H I, 2 H I_s)

    The embedding, or gate and up projections, which Megatron has in one: of a dense layer, or of the shared
    experts.

    Source: verl 0.5.0 ``utils/megatron_utils.py`` (``default_tp_concat_fn``: ``linear_fc1``).
    """
    dense = model.intermediate if model.sparse_layers < model.layers else 0
    shared = 0 if model.moe is None else model.moe.shared_intermediate
    return max(model.embedding_parameters, 2 * model.hidden * max(dense, shared))


def expert_gate_and_up(model: ModelShape) -> int:
    r"""Gate and up projections of one routed expert, one tensor of Megatron's.

    .. math:: E_g = 2 H I_e
    """
    return model.one_expert_parameters * 2 // 3
