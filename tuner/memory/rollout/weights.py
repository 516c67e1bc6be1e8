"""Weights of the rollout engine on one GPU."""

from functools import lru_cache

from tuner.dtypes import DType
from tuner.memory.ledger.formula import ceil_div
from tuner.memory.ledger.stated_terms import Size, stated
from tuner.memory.ledger.terms import Item, Term
from tuner.model_shape import ModelShape
from tuner.workload import Rollout, Workload

SYMBOLS = {
    "N": "parameters of the model",
    "N_E": "parameters of routed experts",
    "G_E": "ranks that share the experts",
    "P_p": "pipeline stages of the rollout engine",
    "T_p": "tensor-parallel ranks of the rollout engine",
    "b": "bytes of a number in the engine's weights and activations",
    "N_u": "parameters of embedding and output projection, which are not quantized",
    "b_u": "bytes of a number that is not quantized",
}


def dense_weight_bytes(*, b: int, N: int, T_p: int, P_p: int) -> int:
    """Weights of a dense model in the rollout engine, on one GPU.

    They are divided over tensor and pipeline parallelism, and replicated over data parallelism. Not
    counted: adapters that the engine applies itself, and scales of quantised weights.

    Source: vLLM ``model_executor/layers/linear.py`` (``ColumnParallelLinear``).
    """
    return ceil_div(b * N, T_p * P_p)


def sparse_weight_bytes(*, b: int, N: int, N_E: int, T_p: int, G_E: int, P_p: int) -> int:
    """Weights of a model with experts in the rollout engine, on one GPU.

    Routed experts :math:`N_E` are divided over tensor parallelism, or over the expert-parallel group
    where there is one; everything else as in a dense model. On a common denominator, so that it is
    rounded once.

    Source: vLLM ``model_executor/layers/fused_moe/layer.py`` (``determine_expert_map``).
    """
    return ceil_div(b * ((N - N_E) * G_E + N_E * T_p), T_p * G_E * P_p)


def quantized_dense_bytes(*, b: int, N: int, b_u: int, N_u: int, T_p: int, P_p: int) -> int:
    """Weights of a dense model in a rollout engine that quantizes them, on one GPU.

    Products of the layers are quantized, embedding and output projection are not. Not counted: the
    norms, which are small, and the scales, four bytes for a block of 128 by 128 weights.

    Source: vLLM ``model_executor/layers/quantization/fp8.py`` (``get_quant_method``), verl 0.9.1
    ``utils/vllm/vllm_fp8_utils.py`` (``quant_weights``).
    """
    return ceil_div(b * (N - N_u) + b_u * N_u, T_p * P_p)


def quantized_sparse_bytes(
    *, b: int, N: int, N_E: int, b_u: int, N_u: int, T_p: int, G_E: int, P_p: int
) -> int:
    """Weights of a model with experts in a rollout engine that quantizes them, on one GPU.

    Source: vLLM ``model_executor/layers/quantization/fp8.py`` (``get_quant_method``).
    """
    whole = b * (N - N_E - N_u) + b_u * N_u
    return ceil_div(whole * G_E + b * N_E * T_p, T_p * G_E * P_p)


def weight_size(model: ModelShape, rollout: Rollout) -> Size:
    """The function that gives the engine's weights."""
    if rollout.weight_dtype is DType.FLOAT8:
        return quantized_sparse_bytes if has_experts(model) else quantized_dense_bytes
    return sparse_weight_bytes if has_experts(model) else dense_weight_bytes


def has_experts(model: ModelShape) -> bool:
    """Whether a model has routed experts, which may be divided in another way than the rest."""
    return model.sparse_layers > 0


def weight_numbers(model: ModelShape, rollout: Rollout) -> dict[str, float]:
    """The symbols of the engine's weights."""
    return {
        "b": rollout.weight_dtype.bytes,
        "N": model.parameters,
        "N_E": model.sparse_layers * model.expert_parameters,
        "T_p": rollout.tensor_parallel,
        "G_E": max(rollout.tensor_parallel, rollout.expert_parallel),
        "P_p": rollout.pipeline_parallel,
        "N_u": model.embedding_parameters + model.head_parameters,
        "b_u": DType.BFLOAT16.bytes,
    }


def engine_weights(workload: Workload) -> Term:
    """The engine's weights on one GPU."""
    return _weights(workload.model, workload.generator.unsized)


@lru_cache(maxsize=256)  # most proposals leave the rollout as it is, or change its memory fraction alone
def _weights(model: ModelShape, rollout: Rollout) -> Term:
    return stated(Item.ENGINE, "engine_weights", weight_size(model, rollout), weight_numbers(model, rollout))
