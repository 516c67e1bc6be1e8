"""Activations of one set of experts, in bytes per token of one GPU.

Symbols: :math:`H` hidden, :math:`e` experts per token, :math:`E` experts, :math:`I_e` width of one
expert, :math:`I_s` of the shared ones, :math:`b` bytes of the compute dtype, :math:`b_w` bytes of the
dtype that the experts' outputs are weighted in (4 for Mixtral and DeepSeek-V2, else :math:`b`).
"""

from tuner.architectures import layer_traits
from tuner.dtypes import DType
from tuner.memory.layer.attention import adapter_bytes
from tuner.memory.layer.fused_experts import (
    fuses_experts,
    routed_backward_bytes,
    routed_forward_bytes,
    routed_saved_bytes,
)
from tuner.model_shape import MixtureOfExperts, ModelShape
from tuner.workload import Checkpointing, Engine

_FLOAT32 = DType.FLOAT32.bytes
_INDEX = 8  # bytes of an index
_SORTS = 4  # indices per routed copy that are kept: expert, order, token, inverse order


def experts_saved_bytes(model: ModelShape, engine: Engine, moe: MixtureOfExperts) -> int:
    r"""The experts of one layer, saved for their backward pass.

    .. math:: b H + e \left(b \, (2 H + 4 I_e) + b_w + 33\right) + R + S

    The input; per routed copy of a token its input, gate and up, activated gate, product and
    output, its weight, four indices (five where experts have biases) and a flag; the router
    :math:`R`; the shared experts :math:`S`. gpt-oss clamps and shifts and keeps :math:`7 I_e`
    instead of 4. Frozen experts (adapters do not reach them) keep neither input nor product,
    :math:`b (H + 3 I_e)`, and only shared experts need the input itself. How the weights of a
    token's experts are normalised, some numbers per routed copy, is not counted. Of Liger's
    kernels: the input and :func:`~tuner.memory.layer.fused_experts.routed_saved_bytes`.

    Source: transformers ``integrations/moe.py`` (``grouped_mm_experts_forward``), its default. The
    loop over experts of earlier releases keeps the same tensors of each copy.
    """
    compute, traits = engine.compute_dtype.bytes, layer_traits(model.architecture)
    weight = _FLOAT32 if traits.float32_routing else compute
    inner = 2 + traits.expert_activations
    if engine.lora is None:
        copy = compute * (2 * model.routed_width + inner * moe.expert_intermediate)
        indices = _SORTS + (1 if moe.expert_bias else 0)
    else:
        copy = compute * (model.routed_width + (inner - 1) * moe.expert_intermediate)
        indices = _SORTS
    routed = moe.experts_per_token * (copy + weight + _INDEX * indices + 1)
    read = engine.lora is None or moe.shared_intermediate > 0
    if fuses_experts(model, engine):
        routed, read = routed_saved_bytes(engine, moe, weight), True
    own_input = compute * model.hidden if read else 0
    return (
        own_input + routed + router_saved_bytes(model, engine, moe) + shared_saved_bytes(model, engine, moe)
    )


def router_saved_bytes(model: ModelShape, engine: Engine, moe: MixtureOfExperts) -> int:
    r"""The router's scores: :math:`4 E` after a float32 softmax, :math:`b E` after a sigmoid.

    gpt-oss has scores for the chosen experts alone, :math:`b e`. DeepSeek's and GLM's routers take
    their input in float32, and autocast makes a copy of it for the product, :math:`b H`; a frozen
    router does not keep it.

    Source: transformers ``Qwen3MoeTopKRouter``, ``DeepseekV3TopkRouter``.
    """
    compute, traits = engine.compute_dtype.bytes, layer_traits(model.architecture)
    if traits.scores_of_chosen:
        scores = compute * moe.experts_per_token
    else:
        scores = (compute if traits.sigmoid_router else _FLOAT32) * moe.experts
    copied = traits.router_copies_input and engine.lora is None
    return scores + (compute * model.hidden if copied else 0)


def shared_saved_bytes(model: ModelShape, engine: Engine, moe: MixtureOfExperts) -> int:
    r"""The shared experts, together one MLP: :math:`4 b I_s`; behind a gate :math:`b (H + 1)` more.

    Source: transformers ``DeepseekV3MoE``, ``Qwen2MoeSparseMoeBlock``.
    """
    if not moe.shared_intermediate:
        return 0
    compute = engine.compute_dtype.bytes
    tensors = 3 if engine.fused_layers else 4
    gate = compute * (model.hidden + 1) if moe.shared_gate else 0
    projections = 4 if moe.shared_gate else 3
    return compute * tensors * moe.shared_intermediate + gate + adapter_bytes(engine, projections)


def experts_forward_bytes(model: ModelShape, engine: Engine, moe: MixtureOfExperts) -> int:
    r"""The most that the experts of one layer need at once without gradients.

    .. math::

       2 b H + b E + e \left(29 + 2 b_w
       + \max\left(b \, (H + 4 I_e),\; 2 \, (b + b_w) \, H + 8\right)\right)

    Residual stream, input and router's logits; per routed copy its weight, as chosen and in order
    of the experts, three indices, an expert's number in float32 and a flag; while the experts work,
    the routed copies, gate and up, activated gate and product, and biases of gate and up laid out
    for each copy, :math:`2 b I_e`, where there are any; when their outputs are put back in order,
    the copies, outputs, weighted outputs, these once more, and the inverse order. Liger's kernels:
    :func:`~tuner.memory.layer.fused_experts.routed_forward_bytes`.

    Source: transformers ``integrations/moe.py`` (``grouped_mm_experts_forward``).
    """
    compute, traits = engine.compute_dtype.bytes, layer_traits(model.architecture)
    weight = _FLOAT32 if traits.float32_routing else compute
    inner = 2 + traits.expert_activations + (2 if moe.expert_bias else 0)
    inside = compute * (model.routed_width + inner * moe.expert_intermediate)
    ordered = 2 * (compute + weight) * model.routed_width + _INDEX
    numbers = (_SORTS - 1) * _INDEX + _FLOAT32 + 1 + 2 * weight
    stream = compute * (2 * model.hidden + moe.experts)
    shared_output = compute * model.hidden if traits.shared_first and moe.shared_intermediate else 0
    routed = moe.experts_per_token * (numbers + max(inside, ordered))
    if fuses_experts(model, engine):
        routed = routed_forward_bytes(model, engine, moe, weight)
    return max(stream + shared_output + routed, compute * (3 * model.hidden + 3 * moe.shared_intermediate))


def experts_backward_bytes(model: ModelShape, engine: Engine, moe: MixtureOfExperts) -> int:
    r"""The most that the backward pass of the experts needs beyond what was saved.

    .. math::

       \max\left(b \, (H + 2 I_s),\; b H - F
       + e \max\left(3 \, b_w H + b_w,\; b \, (2 I_e - H)\right) - 8 e\right)

    In the shared experts as in an MLP. Where the routed copies are put back in order, three
    tensors of their size: the gradient of the weighted outputs, that of the outputs, and the
    product that gives the weights'. In the experts as in an MLP, once their output is given back.
    :math:`F` is what the shared experts have given back by then, 8 the inverse order of one copy.
    Weighting in float32 casts the outputs' gradient, :math:`e \, b H` more. That, and the weights'
    gradient, count only without checkpointing, which gives back outputs and weights as it reads
    them. Frozen experts have no product to give back,
    :math:`b (3 I_e - H)`. Liger's kernels: :math:`b H - F` and
    :func:`~tuner.memory.layer.fused_experts.routed_backward_bytes`.

    Source: transformers ``integrations/moe.py`` (``grouped_mm_experts_forward``).
    """
    compute = engine.compute_dtype.bytes
    gradients = 1 if engine.fused_layers else 2
    shared = compute * (model.hidden + gradients * moe.shared_intermediate) - adapter_bytes(engine, 1)
    if fuses_experts(model, engine):
        return max(fused_experts_inside_bytes(model, engine, moe), shared)
    routed = max(experts_ordering_bytes(model, engine, moe), experts_inside_bytes(model, engine, moe))
    return max(routed, shared)


def experts_ordering_bytes(model: ModelShape, engine: Engine, moe: MixtureOfExperts) -> int:
    """The experts' backward pass while the routed copies are put back in order.

    See :func:`experts_backward_bytes`.
    """
    compute, traits = engine.compute_dtype.bytes, layer_traits(model.architecture)
    saved_copies = 1 if engine.checkpointing is Checkpointing.NONE else 0
    if traits.float32_routing:
        ordering = (3 * _FLOAT32 + saved_copies * compute) * model.routed_width
    else:
        ordering = compute * (3 * model.routed_width + saved_copies)
    return beside_routed_bytes(model, engine, moe) + moe.experts_per_token * (ordering - _INDEX)


def experts_inside_bytes(model: ModelShape, engine: Engine, moe: MixtureOfExperts) -> int:
    """The experts' backward pass while their gate is differentiated.

    See :func:`experts_backward_bytes`.
    """
    gradients = 2 if engine.lora is None else 3
    inside = engine.compute_dtype.bytes * (gradients * moe.expert_intermediate - model.routed_width)
    return beside_routed_bytes(model, engine, moe) + moe.experts_per_token * (inside - _INDEX)


def fused_experts_inside_bytes(model: ModelShape, engine: Engine, moe: MixtureOfExperts) -> int:
    """The backward pass of Liger's experts, all in one."""
    return beside_routed_bytes(model, engine, moe) + routed_backward_bytes(model, engine, moe)


def beside_routed_bytes(model: ModelShape, engine: Engine, moe: MixtureOfExperts) -> int:
    """What exists beside the routed copies while they are differentiated, beyond what was saved."""
    return engine.compute_dtype.bytes * model.hidden - _given_back_by_shared(model, engine, moe)


def _given_back_by_shared(model: ModelShape, engine: Engine, moe: MixtureOfExperts) -> int:
    """What the shared experts have given back when the routed ones begin, less the gradient they made."""
    compute, traits = engine.compute_dtype.bytes, layer_traits(model.architecture)
    if not moe.shared_intermediate:
        return 0
    if traits.shared_first:  # only their gate is done: its gradient, and that of what it multiplied
        return compute * (1 - model.hidden) + adapter_bytes(engine, 1)
    # The input itself is not needed any more where the router reads a copy or is frozen.
    fused = fuses_experts(model, engine)  # the input, by the experts
    unread = model.hidden if not fused and (traits.router_copies_input or engine.lora is not None) else 0
    mlp = (3 if engine.fused_layers else 4) * moe.shared_intermediate
    return compute * (mlp + unread - model.hidden) + adapter_bytes(engine, 3)
