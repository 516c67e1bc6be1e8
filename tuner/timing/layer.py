"""Arithmetic and memory traffic of one decoder layer, averaged over a model's layers."""

from functools import lru_cache

from msgspec import Struct

from tuner.dtypes import DType
from tuner.hardware import Gpu
from tuner.model_shape import ModelShape, QueryKeyNorm
from tuner.timing import assumptions as assume
from tuner.timing.operators import elementwise_of, routing_of
from tuner.timing.rates import (
    copy_bytes_per_s,
    elementwise_bytes_per_s,
    grouped_flop_per_s,
    layer_attention_flop_per_s,
    layer_product_flop_per_s,
)

_RESIDUALS = 2  # of a layer, after the attention and after the MLP


class LayerWork(Struct, frozen=True, kw_only=True):
    """The average decoder layer of a model; counts per token where not said otherwise."""

    hidden: int
    intermediate: int  # of its dense MLP
    head_dim: int  # of queries and keys
    norms: int
    parameters: float  # all of them, every expert included
    active_parameters: float  # those that one token is multiplied with
    routed_parameters: float  # routed experts, all of them
    routed_active: float  # of those, what one token is multiplied with
    expert_width: int  # the narrower side of an expert's weights
    expert_share: float  # of the tokens, those that reach one expert
    attention_width: float  # values per visible key: heads x (width of keys + width of values)
    query_key_values: int  # values that rotary embedding turns
    normed_query_keys: int  # of those, values that are normalised before
    gated_values: float  # intermediate values of the MLP, over all experts of a token
    routed_copies: float  # copies of a token that travel to experts
    window: int | None  # keys that a windowed layer sees at most
    windowed_share: float  # of the layers
    residuals: int = _RESIDUALS  # additions of what a block made

    def width(self, split: int) -> float:
        """The narrower side of its MLP's weights, whose other side ``split`` ranks share."""
        return min(float(self.hidden), self.intermediate / split)


@lru_cache(maxsize=256)
def average_layer(model: ModelShape) -> LayerWork:
    """The average decoder layer: a sum over layers, divided by their number."""
    active = model.active_parameters - model.projection_parameters - model.final_norm_parameters
    value_dim = model.head_dim if model.latent is None else model.latent.v_head_dim
    sparse = model.sparse_layers / model.layers
    dense = 1 - sparse - len(model.mixers_alone) / model.layers
    attending = 1 - len(model.mlps_alone) / model.layers
    moe = model.moe
    query_key_values = int(attending * (model.heads + model.kv_heads) * model.head_dim)
    routed = 0 if moe is None else moe.experts_per_token * moe.expert_intermediate + moe.shared_intermediate
    return LayerWork(
        hidden=model.hidden,
        intermediate=model.intermediate,
        head_dim=model.head_dim,
        norms=model.norms_per_layer,
        parameters=model.decoder_parameters / model.layers,
        active_parameters=active / model.layers,
        routed_parameters=sparse * model.expert_parameters,
        routed_active=0.0 if moe is None else sparse * moe.experts_per_token * model.one_expert_parameters,
        expert_width=model.hidden if moe is None else min(model.routed_width, moe.expert_intermediate),
        expert_share=1.0 if moe is None else moe.experts_per_token / moe.experts,
        attention_width=model.cached_layers / model.layers * model.heads * (model.head_dim + value_dim),
        query_key_values=query_key_values,
        normed_query_keys=0 if model.qk_norm is QueryKeyNorm.NONE else query_key_values,
        residuals=1 if model.mlps_alone else _RESIDUALS,
        gated_values=dense * model.intermediate + sparse * routed,
        routed_copies=0.0 if moe is None else sparse * moe.experts_per_token,
        window=model.sliding_window,
        windowed_share=model.windowed_layers / model.layers,
    )


def visible_keys(layer: LayerWork, sequence_tokens: float) -> float:
    """Mean keys that a query of a causal sequence sees: ``s / 2``, or ``w (1 - w / 2s)`` in a window.

    Averaged over all layers. The state of linear attention does not grow with the sequence and is
    not counted.
    """
    full = sequence_tokens / 2
    window, share = layer.window, layer.windowed_share
    if window is None or window >= sequence_tokens:
        return full
    return share * window * (1 - window / (2 * sequence_tokens)) + (1 - share) * full


def cached_keys(layer: LayerWork, context_tokens: float) -> float:
    """Keys that a new token sees after ``context_tokens``: all of them, or those in the window."""
    if layer.window is None:
        return context_tokens
    windowed = min(context_tokens, float(layer.window))
    return layer.windowed_share * windowed + (1 - layer.windowed_share) * context_tokens


def product_seconds(
    parameters: float, tokens: float, gpu: Gpu, dtype: DType, *, width: float, backward: bool = False
) -> float:
    """Products of ``tokens`` with weights: ``2 P T`` FLOP over their rate.

    Reading the weights is not counted here: with few tokens it takes longer than the arithmetic,
    which :func:`weight_read_seconds` gives.
    """
    rate = layer_product_flop_per_s(gpu, dtype, width=width, rows=tokens, backward=backward)
    return 2 * parameters * tokens / rate


def layer_product_seconds(
    layer: LayerWork,
    tokens: float,
    gpu: Gpu,
    dtype: DType,
    *,
    split: int,
    expert_ranks: int = 1,
    backward: bool = False,
) -> float:
    """One set of products of a layer: those of every token, and those of its experts.

    An expert multiplies the tokens that are routed to it in one grouped kernel with the others, which reads
    their weights once; one after the other they are about as fast, the host aside.

    Args:
        layer: which one.
        tokens: on this GPU.
        gpu: rates.
        dtype: of the operands.
        split: ranks of tensor parallelism that share the weights.
        expert_ranks: ranks of expert parallelism, whose tokens meet in an expert.
        backward: of the gradients with respect to inputs, or to weights.
    """
    shared = product_seconds(
        (layer.active_parameters - layer.routed_active) / split,
        tokens,
        gpu,
        dtype,
        width=layer.width(split),
        backward=backward,
    )
    if not layer.routed_active:
        return shared
    rows = tokens * expert_ranks * layer.expert_share
    rate = grouped_flop_per_s(gpu, dtype, width=layer.expert_width, rows=rows, backward=backward)
    return shared + 2 * layer.routed_active / split * tokens / rate


def weight_read_seconds(parameters: float, gpu: Gpu, dtype: DType) -> float:
    """Reading weights once from memory."""
    return parameters * dtype.bytes / copy_bytes_per_s(gpu)


def attention_seconds(
    layer: LayerWork, tokens: float, sequence_tokens: float, gpu: Gpu, *, backward: bool = False
) -> float:
    """Softmax attention: ``2 T k h (d_qk + d_v)`` FLOP forward with k visible keys, 2.5 times that backward.

    As many FLOP on one GPU under sequence parallelism, where it has fewer heads of longer sequences.
    """
    flop = 2 * tokens * visible_keys(layer, sequence_tokens) * layer.attention_width
    flop *= assume.ATTENTION_BACKWARD if backward else 1
    return flop / layer_attention_flop_per_s(
        gpu, head_dim=layer.head_dim, tokens=sequence_tokens, backward=backward
    )


def elementwise_bytes(
    layer: LayerWork,
    tokens: float,
    gpu: Gpu,
    *,
    fused: bool,
    backward: bool = False,
    fused_gate: bool = True,
) -> float:
    """Bytes that norms, residuals, rotary embedding, activation and routing move for so many tokens, in bf16.

    Operators that run one after the other move what was measured of them on as many values; fused ones read
    their inputs and write their outputs once, and twice as much backward. The activation may stay unfused
    beside them.
    """
    table = elementwise_of(gpu.name)
    gate = table.bytes_of(table.gate, tokens * layer.gated_values, backward=backward)
    routed = tokens * layer.routed_copies * layer.hidden
    if fused:
        values: float = layer.hidden * (layer.norms * assume.FUSED_NORM_BYTES + assume.RESIDUAL_BYTES)
        values += layer.normed_query_keys * assume.FUSED_NORM_BYTES
        values += layer.query_key_values * assume.FUSED_ROTARY_BYTES
        values += layer.gated_values * (assume.FUSED_GATE_BYTES if fused_gate else 0)
        moved = tokens * values + routed * assume.FUSED_ROUTING_BYTES
        return moved * (assume.ELEMENTWISE_BACKWARD if backward else 1) + (0 if fused_gate else gate)
    hidden = tokens * layer.hidden
    moved = layer.norms * table.bytes_of(table.norm, hidden, backward=backward)
    moved += layer.residuals * table.bytes_of(table.residual, hidden, backward=False)
    moved += table.bytes_of(table.norm, tokens * layer.normed_query_keys, backward=backward)
    moved += table.bytes_of(table.rotary, tokens * layer.query_key_values, backward=backward)
    return moved + gate + routing_of(gpu.name).bytes_of(routed, backward=backward)


def before_attention_bytes(layer: LayerWork, tokens: float, gpu: Gpu, *, fused: bool) -> float:
    """Bytes that the element-wise kernels before a layer's attention move forward, in bf16.

    A norm over the hidden width, those of queries and keys, and their rotation.
    """
    if fused:
        values = (layer.hidden + layer.normed_query_keys) * assume.FUSED_NORM_BYTES
        return tokens * (values + layer.query_key_values * assume.FUSED_ROTARY_BYTES)
    table = elementwise_of(gpu.name)
    moved = table.bytes_of(table.norm, tokens * layer.hidden, backward=False)
    moved += table.bytes_of(table.norm, tokens * layer.normed_query_keys, backward=False)
    return moved + table.bytes_of(table.rotary, tokens * layer.query_key_values, backward=False)


def elementwise_seconds(
    layer: LayerWork,
    tokens: float,
    gpu: Gpu,
    dtype: DType,
    *,
    fused: bool,
    backward: bool = False,
    fused_gate: bool = True,
) -> float:
    """Element-wise kernels in one direction: bytes over bandwidth."""
    moved = elementwise_bytes(layer, tokens, gpu, fused=fused, backward=backward, fused_gate=fused_gate)
    return moved * dtype.bytes / DType.BFLOAT16.bytes / elementwise_bytes_per_s(gpu)


def plain_layer_kernels(layer: LayerWork) -> int:
    """Kernels that the host launches for one eager layer's forward pass."""
    return assume.LAYER_KERNELS + (2 * assume.NORM_KERNELS if layer.normed_query_keys else 0)


def checkpoint_values(layer: LayerWork, *, whole_layer: bool) -> float:
    """Values per token that one layer keeps for its backward pass and that offloading copies away.

    Its input alone when the layer is recomputed; otherwise the inputs of its products, its norms
    and its attention. Not counted: float32 copies inside norms.
    """
    if whole_layer:
        return layer.hidden
    return 6 * layer.hidden + 2 * layer.query_key_values + 3 * layer.gated_values
