"""What the rollout engine's process takes beyond its tensors: context, communicator, buffers.

Symbols: :math:`c_x` the context, :math:`c_n` NCCL's code, :math:`c_k` its first kernel, :math:`c_c` the
communicator of the engine's ranks, :math:`h` buffers.
"""

from functools import lru_cache

from tuner.hardware import Gpu
from tuner.memory.ledger.stated_terms import Size
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.process.constant import Constant, heuristic
from tuner.memory.process.overhead import (
    ENGINE_BUFFERS,
    NCCL_CODE,
    NCCL_KERNEL,
    communicator,
    context,
    library,
)
from tuner.workload import RolloutEngine, Workload

SYMBOLS = {
    "c_c": "communicator of the engine's process",
    "c_k": "NCCL's first kernel",
    "c_n": "NCCL's code",
    "c_x": "context of the engine's process",
    "h": "what the engine's process holds beyond its share",
}


def lone_process_bytes(*, c_x: int) -> int:
    """What an engine's own process holds outside tensors where a replica is one GPU: its context.

    Source: :data:`~tuner.memory.process.overhead.CONTEXT`.
    """
    return c_x


def connected_process_bytes(*, c_x: int, c_n: int, c_k: int, c_c: int) -> int:
    """What an engine's own process holds outside tensors where a replica has several GPUs.

    Context, NCCL's code and its first kernel, and the communicator of the engine's ranks.

    Source: :data:`~tuner.memory.process.overhead.CONTEXT`, :data:`~tuner.memory.process.overhead.NCCL_CODE`,
    :data:`~tuner.memory.process.overhead.NCCL_KERNEL`,
    :data:`~tuner.memory.process.overhead.COMMUNICATOR_OVER_LINKS`.
    """
    return c_x + c_n + c_k + c_c


def communicator_bytes(*, c_c: int) -> int:
    """What an engine of several GPUs in the trainer's process adds to it: a communicator.

    Source: :data:`~tuner.memory.process.overhead.COMMUNICATOR_OVER_LINKS`.
    """
    return c_c


def process_parts(workload: Workload) -> dict[str, Constant]:
    """What the engine's process holds outside tensors, by symbol; empty where it adds nothing."""
    rollout = workload.generator
    if rollout.engine is RolloutEngine.TRANSFORMERS:
        return {}
    return _parts(workload.cluster.gpu, own=rollout.own_process, alone=rollout.replica_gpus == 1)


def _parts(gpu: Gpu, *, own: bool, alone: bool) -> dict[str, Constant]:
    """What an engine holds outside tensors; ``own``: in its own process, ``alone``: on one GPU."""
    started = {"c_x": context(gpu)} if own else {}
    if alone:
        return started
    loaded = {"c_n": library(gpu, NCCL_CODE), "c_k": library(gpu, NCCL_KERNEL)} if own else {}
    return started | loaded | {"c_c": communicator(gpu)}


def engine_process(workload: Workload, *, counted: bool = False) -> Term | None:
    """Context and communicator of the engine's process; None where it has none of its own.

    Args:
        workload: the job.
        counted: whether the cache is smaller by as much as these are larger, so that the sum is exact.
    """
    rollout = workload.generator
    if rollout.engine is RolloutEngine.TRANSFORMERS:
        return None
    alone = rollout.replica_gpus == 1
    return _process(workload.cluster.gpu, own=rollout.own_process, alone=alone, counted=counted)


@lru_cache(maxsize=64)
def _process(gpu: Gpu, *, own: bool, alone: bool, counted: bool) -> Term | None:
    parts = _parts(gpu, own=own, alone=alone)
    if not parts:
        return None
    size: Size = communicator_bytes
    if "c_x" in parts:
        size = connected_process_bytes if "c_c" in parts else lone_process_bytes
    return heuristic(Item.ENGINE, "engine_process", size, parts, exact_sum=counted)


def buffer_bytes(*, h: int) -> int:
    """What vLLM's own process holds beyond its share.

    Source: :data:`~tuner.memory.process.overhead.ENGINE_BUFFERS`.
    """
    return h


def engine_buffers(workload: Workload) -> Term | None:
    """Buffers beyond the engine's share; None in the trainer's process, and of other engines than vLLM."""
    rollout = workload.generator
    if rollout.engine is not RolloutEngine.VLLM or not rollout.own_process:
        return None
    return _buffers()


@lru_cache(maxsize=1)
def _buffers() -> Term:
    return heuristic(Item.ENGINE, "engine_buffers", buffer_bytes, {"h": ENGINE_BUFFERS})
