"""Host memory of the processes that drive a node's GPUs, without weights and batches."""

from tuner.memory.host.controller import PROCESS
from tuner.memory.ledger.formula import ceil_div
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.process.constant import heuristic
from tuner.workload import RolloutEngine, Workload

SYMBOLS = {
    "m": "bytes of a process without data",
    "n_g": "processes that drive the GPUs of a node",
}

_SERVED = (RolloutEngine.VLLM, RolloutEngine.SGLANG)


def gpu_process_bytes(*, n_g: int, m: int) -> int:
    """A trainer's process for each GPU, and those of the rollout engine beside it.

    An engine has a worker for each GPU, a server for each replica, and a process that schedules.

    Source: verl 0.9.1 ``workers/rollout/vllm_rollout/vllm_async_server.py`` (``vLLMHttpServer``); vLLM 0.24
    ``v1/engine/core.py`` (``EngineCoreProc``), ``v1/executor/multiproc_executor.py`` (``WorkerProc``).
    """
    return n_g * m


def gpu_processes(workload: Workload) -> Term | None:
    """What the processes of a node's GPUs take of its memory; None where nobody says how the job is run."""
    if workload.controller is None:
        return None
    gpus, rollout = workload.cluster.gpus_per_node, workload.rollout
    number = gpus
    if rollout is not None and rollout.colocated and rollout.own_process and rollout.engine in _SERVED:
        number += gpus + 2 * ceil_div(gpus, rollout.replica_gpus)
    return heuristic(Item.OVERHEAD, "gpu_processes", gpu_process_bytes, {"m": PROCESS}, {"n_g": number})
