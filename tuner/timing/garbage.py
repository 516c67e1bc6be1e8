"""Seconds of collections of garbage, each of which goes through all objects of a process.

The trainer's worker and the engine's each collect their own.
"""

from tuner.timing import assumptions as assume
from tuner.workload import RolloutEngine, Workload


def sync_collections_seconds(workload: Workload) -> float:
    """What is collected while weights are handed over: by the worker, and by the engine's once it has them.

    The engine's worker collects beside the trainer's: the longer one counts. Where the weights left for the
    host behind the update, what was freed went with them, and the first call finds nothing that makes it
    collect again.

    Source: verl 0.7.1 to 0.9.0 ``workers/rollout/vllm_rollout/bucketed_weight_transfer.py`` (``_cleanup`` of
    sender and receiver), ``vllm_rollout.py`` (``await future``).
    """
    sync = workload.weight_sync
    once = _of_the_worker(workload)
    while_received = max(once, _of_the_engine(workload)) if sync.receiver_collects else 0.0
    again = sync.collects_again and not workload.actor.engine.param_offload
    return (sync.collections + again) * once + while_received


def sleep_collection_seconds(workload: Workload) -> float:
    """What vLLM collects as it falls asleep."""
    rollout = workload.generator
    sleeps = rollout.colocated and rollout.frees_memory
    if not sleeps or rollout.engine is not RolloutEngine.VLLM or rollout.first_core:
        return 0.0
    return _of_the_engine(workload)


def _of_the_worker(workload: Workload) -> float:
    own = workload.generator.own_process or not workload.generator.colocated
    return assume.COLLECTION_ALONE_S if own else assume.COLLECTION_S


def _of_the_engine(workload: Workload) -> float:
    """Seconds of a collection in the process that has the engine; none of a heap that is left out of it."""
    return 0.0 if workload.generator.freezes_heap else assume.COLLECTION_S
