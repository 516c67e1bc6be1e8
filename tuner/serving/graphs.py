"""Which decoding steps of a rollout engine are replayed from CUDA graphs."""

from tuner.serving import sglang, vllm
from tuner.workload import Rollout, RolloutEngine


def capture_sizes(rollout: Rollout) -> tuple[int, ...]:
    """Batch sizes that the engine captures, smallest first: as given, or vLLM's own list.

    SGLang captures none for more sequences than it may run.
    """
    if not rollout.cuda_graphs or rollout.engine is RolloutEngine.TRANSFORMERS:
        return ()
    if rollout.capture_sizes is not None:
        sizes = tuple(sorted(rollout.capture_sizes))
        if rollout.engine is RolloutEngine.SGLANG:
            return sglang.running_capture_sizes(sizes, rollout.max_sequences)
        return sizes
    return vllm.own_capture_sizes(rollout.max_sequences)


def longest_graph(rollout: Rollout) -> int | None:
    """Most tokens that any sequence of a step may have which a CUDA graph replays; None: any number."""
    older = rollout.engine is RolloutEngine.VLLM and rollout.first_core
    return vllm.LONGEST_GRAPH_OF_OLDER_CORE if older and rollout.cuda_graphs else None


def largest_graph(rollout: Rollout) -> int | None:
    """Most sequences whose decoding step is replayed from a CUDA graph; None: no end is known."""
    if not rollout.cuda_graphs:
        return 0
    if rollout.capture_sizes is not None:
        return max(rollout.capture_sizes, default=0)
    return vllm.LARGEST_GRAPH if rollout.engine is RolloutEngine.VLLM else None
