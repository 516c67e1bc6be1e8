"""Seconds in which a decoding step reads its KV cache and its weights on a card.

A card whose table lacks them takes the reference's, by the memory bandwidth of both.
"""

from tuner.dtypes import DType
from tuner.hardware import Gpu
from tuner.timing import assumptions as assume
from tuner.timing.decode import RolloutInput, TokenCurve, cache_token_bytes
from tuner.timing.layer import average_layer
from tuner.timing.measured_reads import Plane
from tuner.timing.operators import REFERENCE, Operators, operators_of
from tuner.timing.rates import copy_bytes_per_s

_MLP_PARTS = (2 / 3, 1 / 3)  # gate and up in one matrix, down in another
_ATTENTION_PARTS = (1 / 2, 1 / 2)  # queries, keys and values in one matrix, the output's in another
_MANY_ROWS = 65_536.0  # up to which reading takes as long as for the most that were measured


def cache_plane(inputs: RolloutInput) -> Plane:
    """Seconds in which a step reads the cache of all layers, by keys that are visible and by sequences.

    The rates are those of FlashAttention 3 over blocks of 16 tokens, as vLLM calls it.
    """
    table = _table(inputs.cluster.gpu)
    assert table.cache_reads is not None
    seconds = inputs.model.cached_layers * _slower(inputs.cluster.gpu, table)
    return table.cache_reads.plane().scaled(columns=1 / cache_token_bytes(inputs), seconds=seconds)


def weight_curve(inputs: RolloutInput) -> TokenCurve:
    """Seconds in which a step of a model without experts reads its weights, by its tokens.

    A layer has four matrices, and the output projection is another. None of them is split but by tensor
    parallelism.
    """
    gpu, rollout, model = inputs.cluster.gpu, inputs.rollout, inputs.model
    table = _table(gpu)
    weight_reads = table.weight_reads
    assert weight_reads is not None
    plane = weight_reads.plane().scaled(seconds=_slower(gpu, table))
    layer = average_layer(model)
    mlp = (3 if model.gated_mlp else 2) * layer.hidden * layer.intermediate
    rest = max(0.0, layer.active_parameters - mlp)
    matrices = [mlp * part for part in _MLP_PARTS] + [rest * part for part in _ATTENTION_PARTS]
    head_dtype = DType.BFLOAT16 if rollout.weight_dtype is DType.FLOAT8 else rollout.weight_dtype
    sizes = [one * rollout.weight_dtype.bytes / rollout.tensor_parallel for one in matrices]
    head = model.projection_parameters * head_dtype.bytes / rollout.tensor_parallel
    seconds = [
        model.layers * sum(plane.at(size, rows) for size in sizes) + plane.at(head, rows)
        for rows in weight_reads.rows
    ]
    # More rows take longer to multiply, which the table of products says, and no longer to read.
    return TokenCurve(tokens=(*weight_reads.rows, _MANY_ROWS), seconds=(*seconds, seconds[-1]))


def _table(gpu: Gpu) -> Operators:
    """What was measured on the card where reading was, the cache and the weights, else on the reference."""
    own = operators_of(gpu.name)
    return operators_of(REFERENCE) if own.cache_reads is None else own


def _slower(gpu: Gpu, table: Operators) -> float:
    """Seconds on a card over those of a table."""
    return table.memory_bytes_per_s * assume.MEMORY_SHARE / copy_bytes_per_s(gpu)
