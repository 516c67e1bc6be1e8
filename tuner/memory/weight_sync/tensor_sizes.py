"""Sizes of single tensors of a model, which travel or are saved one after the other."""

from tuner.model_shape import ModelShape


def largest_tensor_parameters(model: ModelShape) -> int:
    r"""The largest tensor of a model, :math:`E`.

    .. math:: E = \max(V H, 2 n_x H I_e)

    The embedding, or gate and up projections of a layer's :math:`n_x` experts of width :math:`I_e`,
    which are one tensor in current transformers.
    """
    return max(model.embedding_parameters, model.expert_parameters * 2 // 3)


def largest_layer_tensor_parameters(model: ModelShape) -> int:
    """The largest tensor of a layer."""
    return max(model.hidden * model.intermediate, model.expert_parameters * 2 // 3)
