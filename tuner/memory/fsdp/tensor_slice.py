"""A model as one rank of tensor parallelism under FSDP2 has it: its share of heads, MLP and vocabulary.

What a rank gathers, computes and keeps is that of the smaller model, whose states the ranks with the same
share divide among them. Tensors of hidden states are whole on each. Routed experts are not divided: they are
dealt out to ranks, or each rank has all.

Source: NeMo Automodel ``components/distributed/optimized_tp_plans.py`` (``ColwiseParallel``,
``RowwiseParallel`` of the embedding, ``lm_head`` with ``Shard(-1)``), ``components/moe/parallelizer.py``
(``_validate_moe_tp_plan``: routed experts stay whole).
"""

from functools import lru_cache
from math import ceil

from msgspec.structs import replace

from tuner.model_shape import LinearAttention, ModelShape
from tuner.workload import Backend, Engine


def is_sliced(engine: Engine) -> bool:
    """Whether ranks under FSDP2 share the columns of its matrices."""
    return engine.backend is Backend.FSDP2 and engine.parallel.tensor > 1


@lru_cache(maxsize=128)
def model_of_a_rank(model: ModelShape, engine: Engine) -> ModelShape:
    """The model with a rank's share of what tensor parallelism divides."""
    if not is_sliced(engine):
        return model
    ranks = engine.parallel.tensor
    return replace(
        model,
        heads=ceil(model.heads / ranks),
        kv_heads=ceil(model.kv_heads / ranks),
        intermediate=model.intermediate if model.moe is not None else ceil(model.intermediate / ranks),
        vocab=ceil(model.vocab / ranks),
        linear=None if model.linear is None else _heads_of_a_rank(model.linear, ranks),
        traced=None,  # counts whole matrices
    )


def _heads_of_a_rank(linear: LinearAttention, ranks: int) -> LinearAttention:
    key_heads, value_heads = (ceil(heads / ranks) for heads in (linear.key_heads, linear.value_heads))
    return replace(linear, key_heads=key_heads, value_heads=value_heads)


@lru_cache(maxsize=128)
def engine_of_a_rank(engine: Engine) -> Engine:
    """The engine of that model: shards lie with the ranks that have the same share."""
    if not is_sliced(engine):
        return engine
    parallel, ranks = engine.parallel, engine.parallel.tensor
    return replace(engine, parallel=replace(parallel, tensor=1, shard=max(1, parallel.shard // ranks)))
