"""Terms of the trainer's process: CUDA context, cuBLAS's workspaces, NCCL's communicators, kept buckets."""

from functools import lru_cache, partial

from tuner.evidence import Evidence
from tuner.hardware import Gpu
from tuner.memory.ledger.stated_terms import stated
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.process.communicators import Communicators
from tuner.memory.process.constant import Constant, heuristic, together
from tuner.memory.process.overhead import (
    ASCEND_CONTEXT,
    CONTEXT,
    CUBLAS_WORKSPACES,
    NCCL_CODE,
    NCCL_EXCHANGE,
    NCCL_KERNEL,
    communicator,
    context,
    library,
    lone_communicator,
    peer,
)
from tuner.workload import WeightSync

SYMBOLS = {
    "B": "bytes of one bucket",
    "n_t": "buckets on the trainer's side",
    "k": "code and kernels that NCCL loads",
    "n": "NCCL communicators of several GPUs in the process",
    "c": "bytes of one of them",
    "n_1": "NCCL communicators of one GPU in the process",
    "c_1": "bytes of one of these",
    "p": "GPUs that the process sends to and receives from, over all communicators",
    "c_p": "bytes for each of those",
}


def context_bytes(*, context: int) -> int:
    """The CUDA context of one process, with the kernels it has loaded.

    Source: :data:`~tuner.memory.process.overhead.CONTEXT`.
    """
    return context


@lru_cache(maxsize=64)
def context_term(name: str, gpu: Gpu) -> Term:
    """The CUDA context of one process: measured where it was on such a card."""
    constant = context(gpu)
    evidence = Evidence.HEURISTIC if constant in (CONTEXT, ASCEND_CONTEXT) else Evidence.MEASURED
    return heuristic(Item.OVERHEAD, name, context_bytes, {"context": constant}, evidence=evidence)


def workspace_bytes(*, w: int) -> int:
    """What cuBLAS keeps through PyTorch's allocator.

    Source: :data:`~tuner.memory.process.overhead.CUBLAS_WORKSPACES`.
    """
    return w


@lru_cache(maxsize=1)
def workspaces() -> Term:
    """The workspaces of cuBLAS, in every pass."""
    return heuristic(Item.ACTIVATIONS, "cublas_workspaces", workspace_bytes, {"w": CUBLAS_WORKSPACES})


def communicator_bytes(*, k: int, n: int, c: int, n_1: int, c_1: int, p: int, c_p: int) -> int:
    """What NCCL takes in one process.

    :math:`k` bytes for what NCCL loads: its code, its first kernel if there are several GPUs, and the kernel
    that sends and receives if there are peers. :math:`n` communicators of several GPUs of :math:`c` bytes
    each, :math:`n_1` of one GPU of :math:`c_1`, and :math:`p` peers of :math:`c_p`, with NVLink or without:
    all of them constants of this page.

    Source: what a process and its communicators held was recorded, see the accuracy page.
    """
    return k + n * c + n_1 * c_1 + p * c_p


@lru_cache(maxsize=256)  # most proposals leave the engines as they are
def communicators_term(name: str, connected: Communicators, gpu: Gpu) -> Term:
    """The communicators of one process."""
    loaded = [NCCL_CODE]
    loaded += [NCCL_KERNEL] if connected.connected else []
    loaded += [NCCL_EXCHANGE] if connected.peers else []
    constants: dict[str, Constant] = {
        "k": together([library(gpu, part) for part in loaded]),
        "c": communicator(gpu),
        "c_1": lone_communicator(gpu),
        "c_p": peer(gpu),
    }
    counts = {"n": connected.connected, "n_1": connected.alone, "p": connected.peers}
    size = partial(communicator_bytes, **{symbol: 0 for symbol, count in counts.items() if not count})
    return heuristic(Item.OVERHEAD, name, size, constants, counts)


def kept_bucket_bytes(*, n_t: int, B: int) -> int:
    """Buckets that what carries weights to other GPUs makes once and keeps: ``mooncake`` registers them.

    Source: verl 0.9.1 ``checkpoint_engine/mooncake_checkpoint_engine.py`` (``__init__``).
    """
    return n_t * B


def kept_buckets(sync: WeightSync) -> tuple[Term, ...]:
    """The buckets that a process of the trainer never gives back; empty where there are none."""
    if sync.carrier is None or not sync.carrier.keeps_buckets:
        return ()
    numbers = {"n_t": sync.carrier.sender_buckets, "B": sync.bucket_bytes}
    return (stated(Item.SYNC, "sync_buckets_kept", kept_bucket_bytes, numbers),)
