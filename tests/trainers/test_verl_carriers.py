"""Which checkpoint engine carries weights to GPUs of their own, release by release."""

import pytest

from tests.trainers.launches import DYNAMIC, ROLLOUT, workload_of
from tuner.workload import Carrier, WeightSync

RECIPE = (
    *DYNAMIC,
    "actor_rollout_ref.hybrid_engine=False",
    "+rollout.nnodes=1",
    "+rollout.n_gpus_per_node=4",
)
V1 = (
    *DYNAMIC,
    "trainer.v1.trainer_mode=separate_async",
    f"{ROLLOUT}.nnodes=1",
    f"{ROLLOUT}.n_gpus_per_node=4",
)
SINCE = ("0.7.1", "0.8.0", "0.9.1")


def sync_of(version: str, *more: str, launch: tuple[str, ...] = RECIPE) -> WeightSync:
    return workload_of((*launch, *more), version).sync


def carrier_of(version: str, *more: str, launch: tuple[str, ...] = RECIPE) -> Carrier:
    found = sync_of(version, *more, launch=launch).carrier
    assert found is not None
    return found


@pytest.mark.parametrize("version", ["0.4.1", "0.5.0", "0.6.1"])
def test_there_is_none_before_0_7_1(version: str) -> None:
    assert sync_of(version).carrier is None


@pytest.mark.parametrize("version", SINCE)
def test_none_where_generation_shares_the_gpus(version: str) -> None:
    plain, set_all_the_same = (
        sync_of(version, *more, launch=DYNAMIC)
        for more in ((), (f"{ROLLOUT}.checkpoint_engine.backend=nccl",))
    )
    assert plain.carrier is None
    assert plain == set_all_the_same


@pytest.mark.parametrize("version", SINCE)
@pytest.mark.parametrize(
    ("backend", "sender", "receiver", "trainer"),
    [
        ("naive", 2, 2, 2),  # what the recipes set instead
        ("nccl", 2, 2, 2),
        ("nixl", 2, 2, 2),
        ("mooncake", 2, 2, 0),  # kept, so not filled anew
        ("kimi_ckpt_engine", 1, 3, 1),
        ("of_the_user", 2, 2, 2),
    ],
)
def test_buckets_of_each_engine(version: str, backend: str, sender: int, receiver: int, trainer: int) -> None:
    sync = sync_of(version, f"{ROLLOUT}.checkpoint_engine.backend={backend}")
    assert sync.carrier is not None
    assert (sync.carrier.sender_buckets, sync.carrier.receiver_buckets) == (sender, receiver)
    assert sync.carrier.handed_on_buckets == 1
    assert sync.buckets == trainer


def test_sparse_changes_travel_flush_by_flush() -> None:
    delta = carrier_of("0.9.1", f"{ROLLOUT}.checkpoint_engine.backend=delta_sharded")
    assert (delta.sender_buckets, delta.receiver_buckets, delta.handed_on_buckets) == (3, 1, 1)
    assert delta.host_shards
    sglang = (f"{ROLLOUT}.checkpoint_engine.backend=delta_sharded", f"{ROLLOUT}.name=sglang")
    assert carrier_of("0.9.1", *sglang).handed_on_buckets == 0


def test_nixl_may_keep_its_buckets_on_the_host() -> None:
    backend = f"{ROLLOUT}.checkpoint_engine"
    carrier = carrier_of("0.8.0", f"{backend}.backend=nixl", f"+{backend}.engine_kwargs.nixl.device=cpu")
    assert (carrier.sender_buckets, carrier.receiver_buckets, carrier.host_buckets) == (0, 0, 2)


@pytest.mark.parametrize(("version", "joins"), [("0.7.1", False), ("0.8.0", True), ("0.9.1", True)])
def test_large_tensors_travel_in_chunks_since_0_8_0(version: str, joins: bool) -> None:
    assert carrier_of(version).joins_chunks is joins
    assert (sync_of(version).smallest_bucket_bytes == 0) is joins


def test_mooncake_refuses_tensors_larger_than_its_bucket() -> None:
    mooncake = sync_of("0.9.1", f"{ROLLOUT}.checkpoint_engine.backend=mooncake")
    assert mooncake.smallest_bucket_bytes > 0


@pytest.mark.parametrize(
    ("version", "engine", "frees"),
    [
        ("0.7.1", "vllm", False),
        ("0.8.0", "vllm", False),
        ("0.9.1", "vllm", True),
        ("0.7.1", "sglang", True),
        ("0.9.1", "sglang", True),
    ],
)
def test_which_engines_give_their_cache_back(version: str, engine: str, frees: bool) -> None:
    assert carrier_of(version, f"{ROLLOUT}.name={engine}").frees_cache is frees
    assert not carrier_of(
        version, f"{ROLLOUT}.name={engine}", f"{ROLLOUT}.free_cache_engine=False"
    ).frees_cache


def test_v1_serves_engines_on_both_kinds_of_gpus() -> None:
    backend = f"{ROLLOUT}.checkpoint_engine.backend=nccl"
    workload = workload_of((*V1, backend), "0.9.1")
    assert workload.rollout.colocated
    assert workload.sync.buckets == 1
    assert workload.sync.carrier is not None
