"""What each checkpoint engine of verl holds while it carries weights to engines on GPUs of their own.

Facts of verl 0.7.1 to 0.9.1, ``verl/checkpoint_engine``.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from tuner.trainers.verl.source import ReleaseSettings
from tuner.workload import Carrier, Rollout, RolloutEngine

#: The one that moves weights within a GPU.
WITHIN_A_GPU = "naive"
_NCCL = Carrier(
    name="nccl",
    sender_buckets=2,
    receiver_buckets=2,
    sender_communicators=1,
    receiver_communicators=1,
)
_CARRIERS: Mapping[str, Carrier] = {
    carrier.name: carrier
    for carrier in (
        _NCCL,  # Huawei's library under the same name on its own cards
        replace(_NCCL, name="nixl", sender_communicators=0, receiver_communicators=0),
        replace(_NCCL, name="mooncake", sender_communicators=0, receiver_communicators=0, keeps_buckets=True),
        # a group of all GPUs, and one of the engines'
        replace(
            _NCCL,
            name="kimi_ckpt_engine",
            sender_buckets=1,
            receiver_buckets=3,
            receiver_communicators=2,
            host_model=True,
        ),
        replace(_NCCL, name="delta_sharded", sender_buckets=3, receiver_buckets=1, host_shards=True),
    )
}
_IN_CHUNKS = ("nccl", "nixl")


def carrier_name(source: ReleaseSettings) -> str:
    """The checkpoint engine that carries weights to other GPUs.

    The recipes that have such GPUs set ``nccl``; a name that verl does not know is a module of the user's.
    """
    name = source.text("sync.carrier", default=WITHIN_A_GPU)
    return _NCCL.name if name == WITHIN_A_GPU else name


def read_carrier(source: ReleaseSettings, rollout: Rollout, trainer_gpus: int) -> Carrier | None:
    """What carries weights to rollout engines on GPUs of their own; None where there are none.

    Before 0.7.1 there is no such choice. A module of the user's is taken to hold what ``nccl`` does.
    """
    apart = not rollout.colocated or rollout.gpus > trainer_gpus
    if not apart or source.key("sync.carrier") is None or rollout.engine is RolloutEngine.TRANSFORMERS:
        return None
    name = carrier_name(source)
    carrier = replace(_CARRIERS.get(name, _NCCL), name=name)
    on_host = name == "nixl" and source.text("sync.carrier_device", default="cuda") == "cpu"
    if on_host:
        carrier = replace(carrier, sender_buckets=0, receiver_buckets=0, host_buckets=2)
    return replace(
        carrier,
        handed_on_buckets=_handed_on(carrier, rollout),
        joins_chunks=name in _IN_CHUNKS and source.since("0.8.0") and not on_host,
        frees_cache=_frees_cache(source, rollout),
    )


def refuses_large_tensors(source: ReleaseSettings, carrier: Carrier) -> bool:
    """Whether a tensor larger than the bucket stops the transfer."""
    if carrier.name == "mooncake":
        return True
    return carrier.name in _IN_CHUNKS and not source.since("0.8.0")


def _handed_on(carrier: Carrier, rollout: Rollout) -> int:
    """Buckets between the receiving process and the engine.

    vLLM maps one; SGLang gets clones of what fills one, but the flushes of ``delta_sharded`` as they are.
    """
    if rollout.engine is RolloutEngine.VLLM:
        return 1
    return int(rollout.engine is RolloutEngine.SGLANG and not carrier.host_shards)


def _frees_cache(source: ReleaseSettings, rollout: Rollout) -> bool:
    """Whether engines give their KV cache back for the transfer, where ``free_cache_engine`` says so.

    Source: ``release_kv_cache`` of ``workers/rollout/*_rollout/*_async_server.py``; of 0.7.1 ``sleep``.
    """
    since = {RolloutEngine.VLLM: "0.9.1", RolloutEngine.SGLANG: "0.7.1"}.get(rollout.engine, "0.8.0")
    return source.flag("rollout.free_cache", default=True) and source.since(since)
