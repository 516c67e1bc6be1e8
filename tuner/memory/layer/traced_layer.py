"""Activations of a model that was traced: counted per token instead of derived."""

from tuner.model_shape import ModelShape
from tuner.traced_layers import LayerBytes
from tuner.workload import Engine


def layer_bytes(model: ModelShape, engine: Engine, layer: int) -> LayerBytes | None:
    r"""What a trace counted of one decoder layer; None of a model that was not traced.

    .. math:: a = \frac{M(2 T_0) - M(T_0)}{T_0}, \quad T_0 = 4096

    :math:`M(T)` are the bytes that are saved, or the most that exist at once in the forward or the
    backward pass of :math:`T` tokens; a third count must lie on the same line. Under adapters
    :math:`a` is a line as well, in their rank. Weights and their gradients are not counted. One
    packed sequence on one GPU was counted: what padding and Ulysses add is added as in the formulas.

    Source: torch ``FakeTensorMode`` over transformers' implementation of the model.
    """
    if model.traced is None:
        return None
    return model.traced.layer(layer).bytes_per_token(engine.lora.rank if engine.lora else None)


def final_norm_bytes(model: ModelShape, engine: Engine) -> int | None:
    r"""What a trace counted between the last layer and the output projection.

    .. math:: a_n = \frac{M(2 T_0) - M(T_0)}{T_0}, \quad T_0 = 1024

    Source: torch ``FakeTensorMode`` over transformers' implementation of the model.
    """
    if model.traced is None:
        return None
    return model.traced.final_norm_saved if engine.lora is None else model.traced.final_norm_frozen
