"""Activations that a pass keeps or needs, in bytes per token of one GPU.

Symbols: :math:`H` hidden, :math:`b` bytes of the compute dtype. The parts of a layer, norms, attention
and MLP, follow below.
"""

from functools import lru_cache

from tuner.architectures import layer_traits
from tuner.dtypes import DType
from tuner.evidence import Evidence
from tuner.memory.batch.fields import batch_token_bytes
from tuner.memory.layer import traced_layer
from tuner.memory.layer.attention import (
    attention_forward_bytes,
    attention_saved_bytes,
    linear_attention_saved_bytes,
    redistribution_saved_bytes,
    scan_inside_bytes,
)
from tuner.memory.layer.mlp import mlp_backward_bytes, mlp_forward_bytes, mlp_saved_bytes
from tuner.memory.layer.norms import norm_backward_bytes, norm_saved_bytes, norms_saved_bytes
from tuner.model_shape import ModelShape
from tuner.workload import Checkpointing, Engine

_FLOAT32 = DType.FLOAT32.bytes


def layer_saved_bytes(model: ModelShape, engine: Engine, layer: int) -> int:
    r"""Everything one decoder layer saves per token when nothing is recomputed.

    .. math:: n \cdot \text{norm} + \text{attention} + \text{MLP}

    The layer's input and output are not counted; where the first norm keeps it (Liger's, LayerNorm),
    the input is, unless checkpointing keeps it. Of a traced model, what was counted.

    Source: transformers ``LlamaDecoderLayer``, ``Gemma2DecoderLayer``, ``Glm4DecoderLayer``.
    """
    counted = traced_layer.layer_bytes(model, engine, layer)
    if counted is not None:
        return counted.saved + redistribution_saved_bytes(model, engine)
    mixer, mlp = 0, 0
    if model.has_mixer(layer):
        size = linear_attention_saved_bytes if model.is_linear(layer) else attention_saved_bytes
        mixer = size(model, engine)
    if model.has_mlp(layer):
        mlp = mlp_saved_bytes(model, engine, layer)
    return norms_saved_bytes(model, engine) + mixer + mlp


def layer_evidence(model: ModelShape) -> Evidence:
    """How sure the bytes of its layers are: heuristic where nothing has counted or measured them.

    That is linear attention and MLPs that write GELU out, whose bytes were only read from the code, sparse
    attention, of which what chooses the keys is left out, and an architecture with dropout behind its
    blocks, which is left out too.
    """
    if model.traced is not None:
        return Evidence.MODELLED
    traits = layer_traits(model.architecture)
    read_only = model.linear is not None or not (model.gated_mlp or traits.squares_relu)
    partly = model.indexer is not None or traits.drops_out
    return Evidence.HEURISTIC if read_only or partly else Evidence.MODELLED


def layer_input_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The input of one layer, all that gradient checkpointing keeps of it: :math:`b H`.

    Source: torch ``utils/checkpoint.py``; transformers ``GradientCheckpointingLayer``.
    """
    return engine.compute_dtype.bytes * model.hidden


def largest_layer_saved_bytes(model: ModelShape, engine: Engine) -> int:
    r"""What the layer saves per token whose backward pass needs the most.

    .. math:: \text{saved}_l, \quad l = \operatorname{argmax} \, (\text{saved} + \text{backward})

    Source: :func:`layer_saved_bytes`.
    """
    return layer_saved_bytes(model, engine, _widest_layer(model, engine))


def all_layers_saved_bytes(model: ModelShape, engine: Engine) -> int:
    r"""What all layers save per token together, nothing recomputed.

    .. math:: \sum_l \text{saved}_l

    Source: :func:`layer_saved_bytes`.
    """
    alike = _alike(model)
    return sum(len(layers) * layer_saved_bytes(model, engine, layers[0]) for layers in alike)


def layer_forward_bytes(model: ModelShape, engine: Engine, layer: int) -> int:
    r"""What one layer needs at once in a forward pass without gradients.

    .. math:: 2 \, b H + \max(\text{attention},\; \text{MLP},\; b H + 8 H + 8)

    Its input; the embeddings, which transformers' model holds until it returns; and the block that
    needs the most. The third is a norm before the MLP: the residual stream, the float32 copy, the
    normalised values and two scales.

    Source: transformers ``LlamaModel.forward`` (``inputs_embeds``).
    """
    return 2 * layer_input_bytes(model, engine) + layer_inside_bytes(model, engine, layer)


def largest_layer_forward_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The most that any layer needs at once in a forward pass without gradients.

    .. math:: \max_l \text{forward}_l

    Source: :func:`layer_forward_bytes`.
    """
    return max(layer_forward_bytes(model, engine, layers[0]) for layers in _alike(model))


def layer_inside_bytes(model: ModelShape, engine: Engine, layer: int) -> int:
    """What one layer needs at once beyond its input, see :func:`layer_forward_bytes`."""
    counted = traced_layer.layer_bytes(model, engine, layer)
    if counted is not None:
        return counted.forward
    mixer, mlp = mixer_inside_bytes(model, engine, layer), 0
    norm = engine.compute_dtype.bytes * model.hidden + 2 * _FLOAT32 * (model.hidden + 1)
    if model.has_mlp(layer):
        mlp = mlp_forward_bytes(model, engine, layer)
    return max(mixer, mlp, norm)


def mixer_inside_bytes(model: ModelShape, engine: Engine, layer: int) -> int:
    """What a layer's attention needs at once; of a gated delta rule less than the MLP behind it."""
    if not model.has_mixer(layer):
        return 0
    if not model.is_linear(layer):
        return attention_forward_bytes(model, engine)
    scans = model.linear is not None and model.linear.scans
    return scan_inside_bytes(model, engine) if scans else 0


def gradients_in_flight_bytes(model: ModelShape, engine: Engine, layer: int) -> int:
    r"""Gradients in flight in one layer's backward pass, on top of what the layer saved.

    .. math:: \max(\text{MLP},\; \text{norm behind the MLP})

    Where a norm follows the MLP, what that norm saved is no longer there in the MLP. Gradients of
    weights are not counted. A layer that is computed again needs no more than this and what it saves,
    since the computation stops at the last tensor that was saved.

    Source: torch ``utils/checkpoint.py`` (``set_checkpoint_early_stop``).
    """
    counted = traced_layer.layer_bytes(model, engine, layer)
    if counted is not None:
        return counted.backward if engine.checkpointing is Checkpointing.NONE else counted.recomputed
    if not model.has_mlp(layer):
        return max(mixer_inside_bytes(model, engine, layer), norm_backward_bytes(model, engine))
    behind = norm_saved_bytes(model, engine) if layer_traits(model.architecture).norms_after else 0
    mlp = mlp_backward_bytes(model, engine, layer) - behind
    return max(mlp, norm_backward_bytes(model, engine))


def final_norm_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The final norm and its output, which is what the output projection keeps.

    .. math:: \text{norm} + b H

    Under LoRA norm and projection are frozen: no gradient of theirs needs the output.

    Source: transformers ``LlamaForCausalLM``.
    """
    counted = traced_layer.final_norm_bytes(model, engine)
    if counted is not None:
        return counted
    output = 0 if engine.lora is not None else engine.compute_dtype.bytes * model.hidden
    return norm_saved_bytes(model, engine) + output


def shared_token_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Per token, once for all layers: the rotary tables and the batch itself.

    .. math:: 2 \, b \, d + \text{batch}

    Cosines and sines as wide as the rotated part of a head, twice where layers with a window have
    tables of their own (Gemma 3); :func:`~tuner.memory.batch.fields.batch_token_bytes`.

    Source: transformers ``LlamaRotaryEmbedding``, ``Gemma3TextModel``.
    """
    rotated = model.latent.qk_rope_head_dim if model.latent else model.head_dim
    tables = 2 * layer_traits(model.architecture).rotary_tables
    return tables * engine.compute_dtype.bytes * rotated + batch_token_bytes(engine)


@lru_cache(maxsize=256)  # every pass asks, and most models have many layers
def layer_kinds(model: ModelShape) -> tuple[tuple[object, ...], ...]:
    """What is equal of two layers that need the same.

    Returns:
        That of every layer.
    """
    counted = (None,) * model.layers if model.traced is None else model.traced.kind_of_layer
    return tuple((*model.kind(layer), counted[layer]) for layer in range(model.layers))


@lru_cache(maxsize=256)
def _alike(model: ModelShape) -> tuple[tuple[int, ...], ...]:
    """The layers, those that are alike together."""
    kinds: dict[object, list[int]] = {}
    for layer, kind in enumerate(layer_kinds(model)):
        kinds.setdefault(kind, []).append(layer)
    return tuple(tuple(layers) for layers in kinds.values())


def _widest_layer(model: ModelShape, engine: Engine) -> int:
    """The layer whose backward pass needs the most, what it saved included."""
    return max(
        (layers[0] for layers in _alike(model)),
        key=lambda layer: (
            layer_saved_bytes(model, engine, layer) + gradients_in_flight_bytes(model, engine, layer)
        ),
    )
