"""Activations of normalisations over the hidden width, in bytes per token of one GPU.

Symbols: :math:`H` hidden, :math:`b` bytes of the compute dtype; norms upcast to float32.
"""

from tuner.architectures import layer_traits
from tuner.dtypes import DType
from tuner.model_shape import ModelShape
from tuner.workload import Checkpointing, Engine

_FLOAT32 = DType.FLOAT32.bytes


def norm_saved_bytes(model: ModelShape, engine: Engine) -> int:
    r"""One normalisation over the hidden width, saved for its backward pass, its output not counted.

    .. math:: (4 + b) \, H + 4

    The float32 copy of the input, the normalised values and one scale. Where the weight multiplies
    in float32 (Gemma, OLMo 2, gpt-oss) the normalised values are float32, :math:`8 H + 4`. Under
    adapters the norm's weight is frozen and nothing needs them, :math:`4 H + 4`. Liger's kernel
    keeps its input, :math:`b H + 4`; so does Nemotron's LayerNorm with a mean besides,
    :math:`b H + 8`. The output is counted in the block that reads it.

    Source: transformers ``LlamaRMSNorm``, ``Gemma2RMSNorm``, ``NemotronLayerNorm1P``; Liger
    ``ops/rms_norm.py``; torch ``native/cuda/layer_norm_kernel.cu`` (float32 statistics).
    """
    compute = engine.compute_dtype.bytes
    if layer_traits(model.architecture).norms_keep_input:
        return compute * model.hidden + 2 * _FLOAT32
    if engine.fused_layers:
        return compute * model.hidden + _FLOAT32
    if engine.lora is not None:
        return _FLOAT32 * model.hidden + _FLOAT32
    normalised = _FLOAT32 if layer_traits(model.architecture).float32_norms else compute
    return (_FLOAT32 + normalised) * model.hidden + _FLOAT32


def norms_saved_bytes(model: ModelShape, engine: Engine) -> int:
    r"""All normalisations of one layer over the hidden width.

    .. math:: n \cdot \text{norm}

    Liger's kernel and LayerNorm keep the layer's input in the first of them, which checkpointing keeps
    anyway: :math:`b H` less, see :func:`input_kept_twice_bytes`.

    Source: :func:`norm_saved_bytes`.
    """
    return model.norms_per_layer * norm_saved_bytes(model, engine) - input_kept_twice_bytes(model, engine)


def input_kept_twice_bytes(model: ModelShape, engine: Engine) -> int:
    r"""A layer's input, :math:`b H`, where the layer's first norm and checkpointing keep the same tensor.

    0 without checkpointing, where the norm does not keep it as Liger's does, and where the layer's first
    block is not preceded by a norm (OLMo 2).

    Source: Liger ``ops/rms_norm.py``; torch ``utils/checkpoint.py``.
    """
    full = engine.checkpointing is Checkpointing.FULL
    traits = layer_traits(model.architecture)
    keeps = engine.fused_layers or traits.norms_keep_input
    if not (keeps and full and traits.norms_before):
        return 0
    return engine.compute_dtype.bytes * model.hidden


def norm_backward_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The backward pass of a norm behind the MLP (Gemma 2, GLM-4, OLMo 2), beyond what was saved.

    .. math:: 20 H - 4

    The gradient of the output, and five float32 tensors of the gradient through the mean of
    squares, less the normalised values and the scale, which are not needed any more. 0 where there
    is no norm behind the MLP, or Liger's kernel computes it.

    Source: transformers ``Gemma2RMSNorm``, ``Glm4RMSNorm``.
    """
    traits = layer_traits(model.architecture)
    if not traits.norms_after or engine.fused_layers:
        return 0
    compute = engine.compute_dtype.bytes
    normalised = 0 if engine.lora is not None else _FLOAT32 if traits.float32_norms else compute
    return (compute + 5 * _FLOAT32 - normalised) * model.hidden - _FLOAT32


def norm_gradient_bytes(model: ModelShape, engine: Engine) -> int:
    """The gradient through a norm beyond what it saved, as in :func:`norm_backward_bytes`.

    Liger's kernel and LayerNorm have the gradients of their output and of their input alone.
    """
    compute = engine.compute_dtype.bytes
    if engine.fused_layers or layer_traits(model.architecture).norms_keep_input:
        return 2 * compute * model.hidden
    normalised = _FLOAT32 if layer_traits(model.architecture).float32_norms else compute
    return (compute + 5 * _FLOAT32 - normalised) * model.hidden - _FLOAT32
