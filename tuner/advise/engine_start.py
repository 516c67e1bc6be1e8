"""A rollout engine as it was started beside the model of it: its KV cache and its longest sequence."""

from typing import Annotated

from msgspec import Meta, Struct

from tuner.advise.answer import Advice
from tuner.memory import RolloutMemory
from tuner.workload import Workload
from tuner.workload.observed_run import EngineStart


class FigureComparison(Struct, frozen=True, kw_only=True):
    """A figure that the engine printed, and the modelled one."""

    observed: int
    modelled: int


class EngineComparison(Struct, frozen=True, kw_only=True):
    """What the engine printed of one GPU's share; None where it did not, or nothing compares with it."""

    kv_cache_tokens: Annotated[FigureComparison | None, Meta(description="of one engine")] = None
    kv_cache_bytes: Annotated[FigureComparison | None, Meta(description="of one GPU")] = None
    longest_sequence_tokens: FigureComparison | None = None


def engine_comparison(advice: Advice, start: EngineStart) -> EngineComparison | None:
    """Put what an engine printed at its start beside its model.

    Args:
        advice: on the job.
        start: what its log says.

    Returns:
        None where the job has no engine, or further ones, which print the same lines.
    """
    memory, workload = advice.rollout, advice.workload
    if memory is None or workload.services:
        return None
    return EngineComparison(
        kv_cache_tokens=_figure_comparison(
            _cached_tokens(workload, start), _modelled_tokens(workload, memory)
        ),
        kv_cache_bytes=_figure_comparison(start.cache_bytes, max(0, memory.kv_bytes)),
        longest_sequence_tokens=_figure_comparison(start.sequence_tokens, memory.model_tokens),
    )


def _figure_comparison(observed: int | None, modelled: int | None) -> FigureComparison | None:
    return (
        None
        if observed is None or modelled is None
        else FigureComparison(observed=observed, modelled=modelled)
    )


def _cached_tokens(workload: Workload, start: EngineStart) -> int | None:
    if start.cache_tokens is None and start.cache_blocks is not None:
        return start.cache_blocks * workload.generator.block_tokens
    return start.cache_tokens


def _modelled_tokens(workload: Workload, memory: RolloutMemory) -> int | None:
    """Tokens that the cache of one data-parallel rank holds; None where layers of several kinds share it."""
    model = workload.model
    if model.windowed_layers or model.linear is not None:
        return None
    return memory.kv_tokens // workload.generator.data_parallel
