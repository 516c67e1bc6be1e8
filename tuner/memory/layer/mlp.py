"""Activations of one MLP, in bytes per token of one GPU.

Symbols: :math:`H` hidden, :math:`I` width of the MLP, :math:`b` bytes of the compute dtype, :math:`r` the
rank of adapters. In a sparse layer the MLP is a set of experts.
"""

from tuner.architectures import layer_traits
from tuner.dtypes import DType
from tuner.memory.layer.attention import adapter_bytes
from tuner.memory.layer.experts import experts_backward_bytes, experts_forward_bytes, experts_saved_bytes
from tuner.model_shape import ModelShape
from tuner.workload import Checkpointing, Engine

_FLOAT32 = DType.FLOAT32.bytes


def mlp_saved_bytes(model: ModelShape, engine: Engine, layer: int) -> int:
    r"""One MLP, saved for its backward pass.

    .. math:: b \, (H + 4 I)

    Its input, gate, the activated gate, up and their product. Liger's kernel computes the
    activation again (3 instead of 4). An MLP without a gate (GPT-2, Phi-2) writes GELU out in
    PyTorch, whose power runs in float32 under autocast, :math:`(3 b + 12) \, I`; read from the code,
    not counted. Squared ReLU (Nemotron) keeps what it squares, in both dtypes, and the square,
    :math:`(2 b + 4) \, I`; Liger's kernel the input and the square, :math:`2 b I`. Adapters keep
    :math:`b r` per projection. A sparse layer is
    :func:`~tuner.memory.layer.experts.experts_saved_bytes`.

    Source: transformers ``LlamaMLP``, ``NewGELUActivation``, ``ReLUSquaredActivation``; Liger
    ``ops/swiglu.py``, ``ops/relu_squared.py``.
    """
    compute = engine.compute_dtype.bytes
    if model.moe is not None and model.is_sparse(layer):
        return experts_saved_bytes(model, engine, model.moe)
    inner = _inner_saved_bytes(model, engine)
    projections = 2 if layer_traits(model.architecture).merged_gate_up or not model.gated_mlp else 3
    return compute * model.hidden + inner * model.intermediate + adapter_bytes(engine, projections)


def fuses_activation(model: ModelShape, engine: Engine) -> bool:
    """Whether Liger's kernel computes the activation of an MLP: it has none for some types."""
    return engine.fused_layers and layer_traits(model.architecture).fused_activation


def _inner_saved_bytes(model: ModelShape, engine: Engine) -> int:
    """Bytes of each entry of the MLP's width, see :func:`mlp_saved_bytes`."""
    compute = engine.compute_dtype.bytes
    if model.gated_mlp:
        return (3 if fuses_activation(model, engine) else 4) * compute
    if not layer_traits(model.architecture).squares_relu:
        return 3 * compute + 3 * _FLOAT32
    return 2 * compute + (0 if engine.fused_layers else _FLOAT32)


def _squares_in_float32(model: ModelShape, engine: Engine) -> bool:
    """Whether ReLU is squared by torch's power, which autocast runs in float32."""
    return layer_traits(model.architecture).squares_relu and not engine.fused_layers


def mlp_forward_bytes(model: ModelShape, engine: Engine, layer: int) -> int:
    r"""The most that one MLP needs at once in a forward pass without gradients.

    .. math:: b \, (2 H + 3 I)

    Residual stream, input, activated gate, up and product; one more :math:`b I` where gate and up
    are one matrix, and two more with Liger, which copies either half of it. Adapters add their
    product, scaled, to each projection, :math:`b (2 H + 4 I)`, or :math:`b (2 H + 6 I)` where gate
    and up are one. Squared ReLU has what it squares and the square in float32 besides two tensors of
    the compute dtype, :math:`2 b H + (2 b + 8) \, I`. Experts:
    :func:`~tuner.memory.layer.experts.experts_forward_bytes`.

    Source: transformers ``LlamaMLP``, ``Phi3MLP``, ``ReLUSquaredActivation``; PEFT
    ``tuners/lora/layer.py``.
    """
    compute, traits = engine.compute_dtype.bytes, layer_traits(model.architecture)
    if model.moe is not None and model.is_sparse(layer):
        return experts_forward_bytes(model, engine, model.moe)
    copies = 2 if fuses_activation(model, engine) else 1
    if not model.gated_mlp:
        tensors = 2
    elif engine.lora is not None:
        tensors = 6 if traits.merged_gate_up else 4
    else:
        tensors = 3 + (copies if traits.merged_gate_up else 0)
    streams = 2 if traits.norms_before else 1
    squares = 2 * _FLOAT32 * model.intermediate if _squares_in_float32(model, engine) else 0
    return compute * (streams * model.hidden + tensors * model.intermediate) + squares


def mlp_backward_bytes(model: ModelShape, engine: Engine, layer: int) -> int:
    r"""The most that an MLP's backward pass needs beyond what was saved.

    .. math:: b \, (H + 2 I)

    The gradients of its output, of the activated gate and of up, once the product, whose gradient
    has their size, is no longer saved. A norm behind the MLP has given back what it saved by then,
    and the down projection's adapter its :math:`b r`. Liger: :func:`fused_mlp_backward_bytes`.
    Squared ReLU has four float32 tensors, the gradient, the derivative, what it is made of and their
    product, once the square is given back, :math:`b H + (16 - b) \, I`.
    Experts: :func:`~tuner.memory.layer.experts.experts_backward_bytes`.

    Source: transformers ``LlamaMLP``; torch ``FunctionsManual.cpp`` (``pow_backward``).
    """
    compute = engine.compute_dtype.bytes
    if model.moe is not None and model.is_sparse(layer):
        return experts_backward_bytes(model, engine, model.moe)
    if fuses_activation(model, engine) and model.gated_mlp:
        return fused_mlp_backward_bytes(model, engine)
    if _squares_in_float32(model, engine):
        inner = 4 * _FLOAT32 - compute
        return compute * model.hidden + inner * model.intermediate - adapter_bytes(engine, 1)
    gradients = 2 if model.gated_mlp else 1
    return compute * (model.hidden + gradients * model.intermediate) - adapter_bytes(engine, 1)


def fused_mlp_backward_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The most that the backward pass of Liger's MLP needs beyond what was saved.

    .. math:: b \, (H + I)

    Gradients are written over gate and up, so that the most is there before: the gradients of the
    MLP's output and of the product, while the product is still saved. Where a norm follows the MLP,
    the gradient of the layer's output is another tensor, :math:`b H` more. Where gate and up are
    one matrix, Liger copies both, and a layer that is computed again has the matrix' output beside
    the copies, :math:`b (H + 2 I)`.

    Source: Liger ``ops/swiglu.py`` (``LigerSiLUMulFunction``), ``transformers/swiglu.py``
    (``LigerPhi3SwiGLUMLP``).
    """
    traits = layer_traits(model.architecture)
    copied = traits.merged_gate_up and engine.checkpointing is Checkpointing.FULL
    streams, tensors = 2 if traits.norms_after else 1, 2 if copied else 1
    entries = streams * model.hidden + tensors * model.intermediate
    return engine.compute_dtype.bytes * entries - adapter_bytes(engine, 1)
