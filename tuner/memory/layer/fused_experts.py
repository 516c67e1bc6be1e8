"""Activations of Liger's routed experts, in bytes per token of one GPU.

One kernel of Liger takes the tokens to their experts and another puts them back, so that no copies of a
token and no output of an expert are kept. Symbols as of other experts.
"""

from tuner.architectures import layer_traits
from tuner.model_shape import MixtureOfExperts, ModelShape
from tuner.workload import Engine

_INDEX = 8  # bytes of an index of torch
_LIGER_INDEX = 4  # bytes of one of Liger's
_ORDERS = 3  # indices of Liger per routed copy: token, order, inverse order


def fuses_experts(model: ModelShape, engine: Engine) -> bool:
    """Whether Liger's kernels run the routed experts, which they do with transformers 5.

    Source: Liger ``transformers/monkey_patch.py`` (``LigerExperts``).
    """
    return engine.fused_layers and layer_traits(model.architecture).fused_experts


def routed_saved_bytes(engine: Engine, moe: MixtureOfExperts, weight: int) -> int:
    r"""The routed copies, saved for their backward pass.

    .. math:: e \left(2 \, b I_e + b_w + 20\right)

    Gate and up, a weight and four indices; not the activated gate, which is computed again.

    Args:
        engine: what computes them.
        moe: the experts.
        weight: bytes of a routing weight, :math:`b_w`.

    Source: Liger ``ops/fused_moe.py`` (``LigerFusedMoEFunction``).
    """
    inner = 2 * engine.compute_dtype.bytes * moe.expert_intermediate
    return moe.experts_per_token * (inner + weight + _INDEX + _ORDERS * _LIGER_INDEX)


def routed_forward_bytes(model: ModelShape, engine: Engine, moe: MixtureOfExperts, weight: int) -> int:
    r"""The routed copies in a forward pass without gradients, when they are added up.

    .. math:: b H + e \left(b \, (H + 3 I_e) + b_w + 24\right)

    The sum; per copy its output, gate, up and product, its weight, and the expert's number twice.

    Source: Liger ``ops/fused_moe.py`` (``LigerFusedMoEFunction``).
    """
    compute = engine.compute_dtype.bytes
    inside = compute * (model.hidden + 3 * moe.expert_intermediate)
    numbers = weight + _INDEX + (_ORDERS + 1) * _LIGER_INDEX
    return compute * model.hidden + moe.experts_per_token * (inside + numbers)


def routed_backward_bytes(model: ModelShape, engine: Engine, moe: MixtureOfExperts) -> int:
    r"""The routed copies in the backward pass, beyond what was saved, when the gradient is added up.

    .. math:: b H + e \, b \, (H + 3 I_e + 1)

    The gradient of the input; per copy its own, those of gate and up, the weighted product, and the
    gradient of its weight. All exist together with the gradients of the experts' weights.

    Source: Liger ``ops/fused_moe.py`` (``LigerFusedMoEFunction``).
    """
    copy = model.hidden + 3 * moe.expert_intermediate + 1
    return engine.compute_dtype.bytes * (model.hidden + moe.experts_per_token * copy)
