"""Kernels of a rollout engine's step: those of the engine, and operators of torch between them.

Where no CUDA graph replays them, the host launches each; the engine's take it longer than torch's own.
"""

from tuner.model_shape import QueryKeyNorm
from tuner.serving.vllm import norms_by_operators
from tuner.timing import assumptions as assume
from tuner.timing.decode import REDUCTIONS_PER_LAYER, RolloutInput
from tuner.workload import RolloutEngine


def engine_kernels(inputs: RolloutInput) -> int:
    """The engine's own, in all layers: products, attention, norms, experts, adapters, and reductions."""
    model = inputs.model
    of_layer = assume.ENGINE_LAYER_KERNELS
    of_layer += REDUCTIONS_PER_LAYER if inputs.rollout.tensor_parallel > 1 else 0
    if _norms(inputs) and not _norms_by_operators(inputs):
        of_layer += assume.ENGINE_QUERY_KEY_NORMS
    experts = 0 if model.moe is None else model.sparse_layers * assume.ENGINE_EXPERT_KERNELS
    return model.layers * of_layer + experts + assume.ADAPTER_KERNELS * adapted_products(inputs)


def adapted_products(inputs: RolloutInput) -> int:
    """Products beside which the engine computes those of an adapter, in all layers; 0 without adapters."""
    model = inputs.model
    routers = 0 if model.moe is None else model.sparse_layers
    return model.layers * assume.ADAPTED_PRODUCTS + routers if inputs.adapters else 0


def engine_operators(inputs: RolloutInput) -> int:
    """Torch's operators between these, in all layers: those of routing, and of norms that no kernel does."""
    model = inputs.model
    norms = 2 * assume.NORM_KERNELS if _norms_by_operators(inputs) else 0
    experts = 0 if model.moe is None else model.sparse_layers * assume.ENGINE_EXPERT_OPERATORS
    return model.layers * norms + experts


def is_compiled(inputs: RolloutInput) -> bool:
    """Whether what no graph replays is compiled: the current core compiles every model that it has graphs of.

    Source: vLLM 0.8.5 and 0.24 ``config`` (``enforce_eager`` switches off both).
    """
    rollout = inputs.rollout
    return rollout.cuda_graphs and rollout.engine is RolloutEngine.VLLM and not rollout.first_core


def _norms(inputs: RolloutInput) -> bool:
    return inputs.model.qk_norm is not QueryKeyNorm.NONE


def _norms_by_operators(inputs: RolloutInput) -> bool:
    """Whether operators norm queries and keys one by one: a compiled model, as with graphs, fuses them."""
    rollout = inputs.rollout
    if rollout.cuda_graphs or rollout.engine is not RolloutEngine.VLLM or not _norms(inputs):
        return False
    return norms_by_operators(rollout.engine_version, inputs.model.architecture)
