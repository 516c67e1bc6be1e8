r"""What carries weights to rollout engines on GPUs of their own, and the process there that receives them.

Symbols: :math:`B` a bucket, :math:`n_r` buckets that weights arrive in, :math:`n_h` buckets that the engine
reads from, :math:`n_c` buckets in host memory, :math:`G` GPUs of a node, :math:`b_t` bytes of a number as it
travels, :math:`E` the largest tensor.
"""

from collections.abc import Sequence
from functools import lru_cache

from tuner.dtypes import DType
from tuner.hardware import Gpu
from tuner.memory.fsdp import states as fsdp_states
from tuner.memory.ledger.formula import ceil_div
from tuner.memory.ledger.stated_terms import pinned, stated
from tuner.memory.ledger.terms import Item, Moment, Term
from tuner.memory.process import terms as process
from tuner.memory.process.communicators import Communicators
from tuner.memory.weight_sync.tensor_sizes import largest_tensor_parameters
from tuner.workload import Backend, Workload

SYMBOLS = {
    "A": "GPUs of the actor",
    "B": "bytes of one bucket",
    "E": "elements of the largest tensor",
    "G": "GPUs of a node",
    "b_t": "bytes of a number as it travels",
    "n_c": "buckets in host memory, of every process",
    "n_h": "buckets that the engine reads from",
    "n_r": "buckets that weights arrive in",
}


def received_bytes(*, n_r: int, n_h: int, B: int) -> int:
    """Buckets on a GPU of the engine, in the process that receives new weights for it.

    Weights arrive in :math:`n_r` buckets: one is received while the other is read (``nccl``, ``nixl``,
    ``mooncake``), a third holds what this GPU fetched from the host for all (``kimi_ckpt_engine``), and
    only one flush is there at a time under ``delta_sharded``. vLLM reads them from one more, which it maps
    through CUDA IPC, and SGLang gets copies of whole tensors that fill one.

    Not counted: what ``delta_sharded`` decodes within SGLang, at most 0.5 GiB.

    Source: verl 0.9.1 ``checkpoint_engine/nccl_checkpoint_engine.py`` (``prepare``),
    ``nixl_checkpoint_engine.py`` (``prepare``), ``mooncake_checkpoint_engine.py`` (``__init__``),
    ``kimi_checkpoint_engine.py`` (``receive_tensor``), ``delta_checkpoint_engine.py`` (``receive_weights``),
    ``workers/rollout/vllm_rollout/bucketed_weight_transfer.py`` (``BucketedWeightSender``),
    ``workers/rollout/sglang_rollout/utils.py`` (``get_named_tensor_buckets``).
    """
    return (n_r + n_h) * B


def joined_bytes(*, b_t: int, E: int) -> int:
    """A tensor larger than a bucket, which arrives in chunks and is joined.

    Source: verl 0.8.0 ``checkpoint_engine/base.py`` (``merge_weight_chunks``).
    """
    return b_t * E


def travelling_dtype(workload: Workload) -> DType:
    """The dtype that weights travel in."""
    engine = workload.actor.engine
    if engine.backend is Backend.MEGATRON:
        return engine.compute_dtype
    return workload.weight_sync.sent_dtype or engine.stored_dtype


def receiver_process(workload: Workload) -> tuple[Term, ...]:
    """What the receiving process keeps between two transfers; empty where no engine has GPUs of its own."""
    carrier = workload.weight_sync.carrier
    if carrier is None:
        return ()
    process_terms = _process(workload.cluster.gpu, carrier.receiver_communicators)
    return (*process_terms, *_receiver_buckets(workload)) if carrier.keeps_buckets else process_terms


@lru_cache(maxsize=64)
def _process(gpu: Gpu, connected: int) -> tuple[Term, ...]:
    context = process.context_term("receiver_context", gpu)
    if not connected:
        return (context,)
    communicators = Communicators(connected=connected)
    return (context, process.communicators_term("receiver_communicators", communicators, gpu))


def _receiver_buckets(workload: Workload) -> tuple[Term, ...]:
    carrier = workload.weight_sync.carrier
    if carrier is None:
        return ()
    numbers = {
        "n_r": carrier.receiver_buckets,
        "n_h": carrier.handed_on_buckets,
        "B": workload.weight_sync.bucket_bytes,
    }
    return (stated(Item.ENGINE, "receiver_buckets", received_bytes, numbers),)


def receive_moment(workload: Workload, awake: Sequence[Term]) -> Moment:
    """An engine on a GPU of its own and the process beside it, while new weights arrive.

    The engine, which holds ``awake`` while it generates, keeps its weights, which are overwritten in place.
    """
    sync, carrier = workload.weight_sync, workload.weight_sync.carrier
    assert carrier is not None
    engine = [term for term in awake if term.item is not Item.KV_CACHE or not carrier.frees_cache]
    terms = [*engine, *_process(workload.cluster.gpu, carrier.receiver_communicators)]
    terms += _receiver_buckets(workload)
    numbers = {"b_t": travelling_dtype(workload).bytes, "E": largest_tensor_parameters(workload.model)}
    joined = stated(Item.ENGINE, "receiver_joined", joined_bytes, numbers)
    if carrier.joins_chunks and joined.bytes > sync.bucket_bytes:
        terms.append(joined)
    return Moment(name="receive", terms=tuple(term for term in terms if term.bytes))


def host_bucket_bytes(*, G: int, n_c: int, B: int) -> int:
    """Buckets of ``nixl`` with ``device: cpu``, in pinned memory of every process.

    Source: verl 0.9.1 ``checkpoint_engine/nixl_checkpoint_engine.py`` (``prepare``).
    """
    return G * n_c * B


def host_shard_bytes(*, G: int, b_s: int, N: int, W: int) -> int:
    """What ``delta_sharded`` compares new shards with: a copy of the ones that were sent.

    Source: verl 0.9.1 ``workers/engine/utils.py`` (``prime_delta_snapshots``).
    """
    return G * b_s * ceil_div(N, W)


def host_model_bytes(*, G: int, N: int, A: int) -> int:
    """The model in bfloat16 that the trainer puts into host memory for ``kimi_ckpt_engine``.

    Each rank holds every :math:`A`-th tensor. Registering copies them once more, so up to twice as much
    is there for a moment.

    Source: verl 0.9.1 ``checkpoint_engine/kimi_checkpoint_engine.py`` (``ckpt_get_named_tensor_buckets``,
    ``send_weights``).
    """
    return 2 * G * ceil_div(N, A)


def carried_on_host(workload: Workload) -> tuple[Term, ...]:
    """What carrying weights takes of a trainer's node."""
    carrier, engine = None if workload.sync is None else workload.sync.carrier, workload.actor.engine
    if carrier is None:
        return ()
    stored = workload.model.parameters
    if engine.backend is not Backend.MEGATRON:
        stored = fsdp_states.stored_parameters(workload.model, engine)
    numbers = {
        "A": engine.parallel.gpus,
        "B": workload.weight_sync.bucket_bytes,
        "G": workload.cluster.gpus_per_node,
        "N": stored,
        "W": engine.parallel.shard,
        "b_s": engine.stored_dtype.bytes,
        "n_c": carrier.host_buckets,
    }
    terms = []
    if carrier.host_buckets:
        terms.append(pinned(Item.SYNC, "sync_buckets_on_host", host_bucket_bytes, numbers))
    if carrier.host_shards and engine.backend is not Backend.MEGATRON:
        terms.append(pinned(Item.SYNC, "sync_shards_on_host", host_shard_bytes, numbers))
    if carrier.host_model:
        terms.append(pinned(Item.SYNC, "sync_model_on_host", host_model_bytes, numbers, most=4))
    return tuple(terms)
