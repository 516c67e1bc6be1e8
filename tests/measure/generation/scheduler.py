"""Functions that run in the process of vLLM's engine, where a single GPU's worker and the scheduler are."""

import gc
from typing import Any

_held: list[Any] = []  # blocks of the cache
_preempted = 0  # sequences since the scheduler was set


def set_scheduler(worker: Any, limit: int, cache_blocks: int | None) -> dict[str, int]:
    """Change the sequences that run at once, and hold blocks of the KV cache back; None holds none.

    Blocks that were held before are given back first. No request may be in the engine.

    Returns:
        The blocks that are left, their bytes and the card's.
    """
    global _preempted
    scheduler = _scheduler()
    pool = scheduler.kv_cache_manager.block_pool
    pool.free_blocks(_held)
    _held.clear()
    held = 0 if cache_blocks is None else pool.num_gpu_blocks - cache_blocks
    if held < 0:
        raise RuntimeError(f"the engine has {pool.num_gpu_blocks} blocks, not {cache_blocks}")
    _held.extend(pool.get_new_blocks(held))
    scheduler.max_num_running_reqs = limit
    _count_preemptions(scheduler)
    _preempted = 0
    cache = scheduler.kv_cache_config
    return {
        "cache_blocks": pool.num_gpu_blocks - held,
        "held_blocks": held,
        "block_bytes": sum(tensor.size for tensor in cache.kv_cache_tensors) // cache.num_blocks,
        "card_bytes": int(worker.init_snapshot.total_memory),
    }


def preemptions(_: Any) -> int:
    """Sequences that were preempted since the scheduler was set or this was asked."""
    global _preempted
    count, _preempted = _preempted, 0
    return count


def _scheduler() -> Any:
    from vllm.v1.core.sched.scheduler import Scheduler

    gc.unfreeze()  # the engine hides from the collector what lives as long as it does
    schedulers = [thing for thing in gc.get_objects() if isinstance(thing, Scheduler)]
    gc.freeze()
    if len(schedulers) != 1:
        raise RuntimeError(f"{len(schedulers)} schedulers in the worker's process")
    return schedulers[0]


def _count_preemptions(scheduler: Any) -> None:
    preempt = scheduler._preempt_request
    if "_preempt_request" in vars(scheduler):
        return  # counted since an earlier batch

    def counted(*arguments: Any, **options: Any) -> Any:
        global _preempted
        _preempted += 1
        return preempt(*arguments, **options)

    scheduler._preempt_request = counted
