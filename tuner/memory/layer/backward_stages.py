"""The backward pass of one decoder layer, stage by stage: gradients of its weights come, activations go.

Symbols: :math:`U_g` parameters of the layer that have their gradient, :math:`a_e` bytes of activations
and of their gradients per token, :math:`s` what the layer saved per token; the others are those of the
activations above.
"""

from msgspec import Struct
from msgspec.structs import replace

from tuner.architectures import LayerTraits, layer_traits
from tuner.dtypes import DType
from tuner.memory.layer import activations
from tuner.memory.layer.attention import attention_saved_bytes, linear_attention_saved_bytes
from tuner.memory.layer.experts import (
    beside_routed_bytes,
    experts_inside_bytes,
    experts_ordering_bytes,
    fused_experts_inside_bytes,
)
from tuner.memory.layer.fused_experts import fuses_experts
from tuner.memory.layer.mlp import fused_mlp_backward_bytes, fuses_activation, mlp_backward_bytes
from tuner.memory.layer.norms import (
    input_kept_twice_bytes,
    norm_backward_bytes,
    norm_gradient_bytes,
    norm_saved_bytes,
)
from tuner.model_shape import LatentAttention, MixtureOfExperts, ModelShape
from tuner.workload import Checkpointing, Engine

_FLOAT32 = DType.FLOAT32.bytes


class BackwardStage(Struct, frozen=True, kw_only=True):
    """A point of a layer's backward pass."""

    gradients: int  # parameters of the layer that have their gradient by then
    activations: int  # bytes per token, what the layer saved and still needs among them


def trained_parameters(model: ModelShape, engine: Engine, layer: int) -> int:
    """Parameters of one layer that have a gradient: all, or an equal share of the adapters."""
    return model.layer_parameters(layer) if engine.lora is None else engine.lora.parameters // model.layers


def backward_stages(model: ModelShape, engine: Engine, layer: int) -> tuple[BackwardStage, ...]:
    r"""The stages of one layer's backward pass, one of which needs the most.

    .. math:: \max \left(b_c \, U_g + T \, a_e\right)

    A weight's gradient exists from the product that makes it until the layer's end. The activations
    are the most while the MLP is differentiated, when few gradients exist, and almost gone when all
    do. In the order in which they come:

    a norm behind the MLP
        no gradient; :math:`s` and :func:`~tuner.memory.layer.norms.norm_backward_bytes`
    the MLP's activation
        that of the down projection; :math:`s` and what is added by
        :func:`~tuner.memory.layer.mlp.mlp_backward_bytes`
    the up projection
        both; :math:`s + b \, (2 H - I)`, or gate and up together, :math:`s + b \, (2 H - 2 I)`
    a norm before the MLP
        the MLP's; norms, attention and :math:`20 H - 4` for the gradient through the norm
    latent attention
        all but those of queries, keys and values; the first norm, the attention and
        :math:`b \, (H + 4 Q - h d_v)`, gradients of queries, keys, padded values and the output
    the first norm
        all; what it saved, and :math:`20 H - 4`

    In a sparse layer the MLP's stages are the shared experts, then the routed copies put back in
    order (:math:`s + O`), both of :func:`~tuner.memory.layer.experts.experts_backward_bytes`; the
    experts' down projections, :math:`s + b H - F + e \max(b I_e - b_w - 1,\; b \, (2 I_e - H) - 8)`;
    and their gate and up projections, :math:`s + b H - F - e \, (2 b I_e + b_w + 1)`. Liger's kernels
    differentiate the routed experts in one: all their gradients, :math:`s + b H - F` and
    :func:`~tuner.memory.layer.fused_experts.routed_backward_bytes`.

    Liger's norms need so little that other stages come to light. In an MLP: gate and up together as
    the up projection alone; the gate projection, :math:`s + b \, (3 H - 2 I)`; and, where halves of
    one matrix are copied in a layer that is computed again, no gradient and
    :func:`~tuner.memory.layer.mlp.fused_mlp_backward_bytes`. In attention: the output
    projection's gradient besides and :math:`b \, (H + 2 Q + 2 K)`, gradients of queries, keys,
    values and of the output; all gradients and :math:`b \, (4 H + Q)`, where queries are projected.

    Of a traced model, under adapters, and of layers that are attention or an MLP alone, all gradients are
    counted with the most activations.

    Source: torch ``autograd/engine.cpp``, ``FunctionsManual.cpp`` (``mm``); transformers
    ``LlamaDecoderLayer``, ``integrations/moe.py``, ``DeepseekV3Attention``.
    """
    saved = activations.layer_saved_bytes(model, engine, layer)
    single = not (model.has_mixer(layer) and model.has_mlp(layer))
    if model.traced is not None or engine.lora is not None or single:
        most = saved + activations.gradients_in_flight_bytes(model, engine, layer)
        return (BackwardStage(gradients=trained_parameters(model, engine, layer), activations=most),)
    traits = layer_traits(model.architecture)
    behind = norm_saved_bytes(model, engine) if traits.norms_after else 0
    stages = [
        *_mlp_stages(model, engine, layer, saved - behind),
        *_later_stages(model, engine, layer, traits),
    ]
    if traits.norms_after:
        norm = norm_backward_bytes(model, engine)
        stages.insert(0, BackwardStage(gradients=0, activations=saved + norm))
    return tuple(stages)


def _mlp_stages(model: ModelShape, engine: Engine, layer: int, saved: int) -> list[BackwardStage]:
    """The stages of an MLP; ``saved``: by the layer, what a norm behind the MLP saved apart."""
    if model.moe is not None and model.is_sparse(layer):
        return _sparse_stages(model, engine, model.moe, saved)
    compute, matrix = engine.compute_dtype.bytes, model.hidden * model.intermediate
    if fuses_activation(model, engine) and model.gated_mlp:
        return _fused_mlp_stages(model, engine, saved)
    stages = [
        BackwardStage(gradients=matrix, activations=saved + mlp_backward_bytes(model, engine, layer)),
    ]
    if model.gated_mlp:
        merged = 2 if layer_traits(model.architecture).merged_gate_up else 1
        left = saved + compute * (2 * model.hidden - merged * model.intermediate)
        stages.append(BackwardStage(gradients=(1 + merged) * matrix, activations=left))
    return stages


def _fused_mlp_stages(model: ModelShape, engine: Engine, saved: int) -> list[BackwardStage]:
    """The stages of Liger's MLP: the matrix' output in the forward pass, down, up, gate."""
    compute, matrix = engine.compute_dtype.bytes, model.hidden * model.intermediate
    again = engine.checkpointing is Checkpointing.FULL
    uncheckpointed = replace(engine, checkpointing=Checkpointing.NONE)
    up = saved + compute * (2 * model.hidden - model.intermediate)
    down = BackwardStage(
        gradients=matrix, activations=saved + fused_mlp_backward_bytes(model, uncheckpointed)
    )
    if layer_traits(model.architecture).merged_gate_up:
        first = BackwardStage(gradients=0, activations=saved + fused_mlp_backward_bytes(model, engine))
        both = BackwardStage(gradients=3 * matrix, activations=up)
        return [first, down, both] if again else [down, both]
    gate = saved + compute * (3 * model.hidden - 2 * model.intermediate)
    return [
        down,
        BackwardStage(gradients=2 * matrix, activations=up),
        BackwardStage(gradients=3 * matrix, activations=gate),
    ]


def _sparse_stages(
    model: ModelShape, engine: Engine, moe: MixtureOfExperts, saved: int
) -> list[BackwardStage]:
    """The stages of routed and shared experts."""
    compute, traits = engine.compute_dtype.bytes, layer_traits(model.architecture)
    matrix = model.hidden * moe.shared_intermediate
    # What runs last in the forward pass comes first in the backward pass.
    shared = 0 if traits.shared_first else model.shared_expert_parameters
    if fuses_experts(model, engine):
        stages = [_fused_stage(model, engine, moe, saved, shared)]
    else:
        stages = _routed_stages(model, engine, moe, saved, shared)
    if shared:
        gradients = 1 if engine.fused_layers else 2
        in_shared = compute * (model.hidden + gradients * moe.shared_intermediate)
        stages.insert(0, BackwardStage(gradients=matrix, activations=saved + in_shared))
    return stages


def _fused_stage(
    model: ModelShape, engine: Engine, moe: MixtureOfExperts, saved: int, earlier_parameters: int
) -> BackwardStage:
    """Routed experts that Liger's kernels differentiate all at once, behind ``earlier_parameters``."""
    inside = fused_experts_inside_bytes(model, engine, moe)
    return BackwardStage(gradients=earlier_parameters + model.expert_parameters, activations=saved + inside)


def _routed_stages(
    model: ModelShape, engine: Engine, moe: MixtureOfExperts, saved: int, earlier_parameters: int
) -> list[BackwardStage]:
    """The stages of routed experts; ``earlier_parameters`` have their gradients before them."""
    compute = engine.compute_dtype.bytes
    weight = _FLOAT32 if layer_traits(model.architecture).float32_routing else compute
    shared_bytes = beside_routed_bytes(model, engine, moe)
    product = shared_bytes + moe.experts_per_token * (compute * moe.expert_intermediate - weight - 1)
    down = max(product, experts_inside_bytes(model, engine, moe))
    left = shared_bytes - moe.experts_per_token * (2 * compute * moe.expert_intermediate + weight + 1)
    third = moe.experts * model.hidden * moe.expert_intermediate
    return [
        BackwardStage(
            gradients=earlier_parameters, activations=saved + experts_ordering_bytes(model, engine, moe)
        ),
        BackwardStage(gradients=earlier_parameters + third, activations=saved + down),
        BackwardStage(gradients=earlier_parameters + model.expert_parameters, activations=saved + left),
    ]


def _later_stages(model: ModelShape, engine: Engine, layer: int, traits: LayerTraits) -> list[BackwardStage]:
    """The stages below the MLP."""
    norm = norm_saved_bytes(model, engine)
    linear = model.is_linear(layer)
    mixer = linear_attention_saved_bytes(model, engine) if linear else attention_saved_bytes(model, engine)
    norms = model.norms_per_layer - (1 if traits.norms_after else 0)
    through = norm_gradient_bytes(model, engine)
    twice = input_kept_twice_bytes(model, engine)
    mlp_parameters = model.mlp_parameters(layer)
    stages = [
        BackwardStage(gradients=mlp_parameters, activations=norms * norm + mixer + through - twice),
        BackwardStage(gradients=model.layer_parameters(layer), activations=norm + through - twice),
    ]
    if engine.fused_layers and not linear and model.latent is None:
        stages[1:] = _fused_attention_stages(model, engine, layer, norm + mixer - twice, norm - twice)
    if model.latent is not None:
        stages.insert(1, _latent_stage(model, engine, model.latent, norm + mixer - twice, mlp_parameters))
    return stages


def _fused_attention_stages(
    model: ModelShape, engine: Engine, layer: int, saved: int, norm: int
) -> list[BackwardStage]:
    """Attention, with what it and the first norm saved, and its projections, with what that norm saved."""
    compute, hidden = engine.compute_dtype.bytes, model.hidden
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    return [
        BackwardStage(
            gradients=model.mlp_parameters(layer) + query * hidden,
            activations=saved + compute * (hidden + 2 * query + 2 * key),
        ),
        BackwardStage(
            gradients=model.layer_parameters(layer), activations=norm + compute * (4 * hidden + query)
        ),
    ]


def _latent_stage(
    model: ModelShape, engine: Engine, latent: LatentAttention, saved: int, earlier_parameters: int
) -> BackwardStage:
    """While latent attention is differentiated, the output projection's gradient beside the MLP's."""
    query, value = model.heads * model.head_dim, model.heads * latent.v_head_dim
    sliced = 0 if latent.v_head_dim == model.head_dim else value
    more = engine.compute_dtype.bytes * (model.hidden + 4 * query - sliced)
    return BackwardStage(gradients=earlier_parameters + value * model.hidden, activations=saved + more)
