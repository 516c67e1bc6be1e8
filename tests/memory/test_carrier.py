"""What carries weights to engines on GPUs of their own: buckets, the receiving process, host memory."""

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner import memory
from tuner.memory.ledger.terms import Moment
from tuner.units import MIB
from tuner.workload import Carrier, Phase, RolloutEngine, WeightSync, Workload

BUCKET = 2048 * MIB
EMBEDDING = 152_064 * 3_584
NCCL = Carrier(
    name="nccl",
    sender_buckets=2,
    receiver_buckets=2,
    handed_on_buckets=1,
    sender_communicators=1,
    receiver_communicators=1,
    joins_chunks=True,
)
PLAIN = replace(NCCL, sender_communicators=0, receiver_communicators=0)


def carried(carrier: Carrier | None, *, bucket: int = BUCKET, **rollout: object) -> Workload:
    """The 7B job with generation on GPUs of its own."""
    buckets = 2 if carrier is None else carrier.sender_buckets
    sync = WeightSync(bucket_bytes=bucket, gathers_whole_model=False, buckets=buckets, carrier=carrier)
    return replace(workloads.grpo_7b(), sync=sync).with_rollout(**{"colocated": False, **rollout})


def moments(workload: Workload) -> dict[str, Moment]:
    found = memory.estimate(workload).phase(Phase.UPDATE_WEIGHTS)
    assert found is not None
    return {moment.name: moment for moment in found.moments}


def sizes(moment: Moment) -> dict[str, int]:
    return {term.name: term.bytes for term in moment.terms}


def test_the_trainer_fills_two_buckets_and_the_receiver_three() -> None:
    found = moments(carried(NCCL))
    assert sizes(found["transfer"])["sync_buckets"] == 2 * BUCKET
    assert sizes(found["receive"])["receiver_buckets"] == 3 * BUCKET


def test_the_receiver_holds_nothing_of_the_trainer() -> None:
    receive = sizes(moments(carried(NCCL))["receive"])
    assert not [name for name in receive if name.startswith(("actor_", "trainer_", "sync_"))]
    assert receive["engine_weights"] > 0
    assert receive["kv_cache"] > 0


def test_an_engine_that_frees_its_cache_makes_room_for_the_buckets() -> None:
    kept, freed = (
        sizes(moments(carried(replace(NCCL, frees_cache=frees)))["receive"]) for frees in (False, True)
    )
    assert sum(kept.values()) - sum(freed.values()) == kept["kv_cache"]


@pytest.mark.parametrize(("bucket", "joined"), [(2048 * MIB, 4 * EMBEDDING), (4096 * MIB, 0)])
def test_a_tensor_larger_than_a_bucket_is_put_together_again(bucket: int, joined: int) -> None:
    """The embedding as stored, 152,064 x 3,584 x 4 B = 2.18 GB."""
    receive = sizes(moments(carried(NCCL, bucket=bucket))["receive"])
    assert receive.get("receiver_joined", 0) == joined
    whole = replace(NCCL, joins_chunks=False)
    assert "receiver_joined" not in sizes(moments(carried(whole, bucket=bucket))["receive"])


def test_the_receiving_process_stays_beside_the_engine() -> None:
    before, after = (
        sizes(_phase(carried(carrier), Phase.ROLLOUT).peak)
        for carrier in (None, replace(NCCL, receiver_communicators=0))
    )
    added = {name: size for name, size in after.items() if name not in before}
    assert list(added) == ["receiver_context"]
    assert {name: size for name, size in after.items() if name in before} == before


def test_a_communicator_on_both_sides() -> None:
    alone, connected = (moments(carried(carrier)) for carrier in (PLAIN, NCCL))
    assert sizes(connected["transfer"])["communicators"] > sizes(alone["transfer"])["communicators"]
    assert "receiver_communicators" in sizes(connected["receive"])
    assert "receiver_communicators" not in sizes(alone["receive"])


def test_buckets_that_are_kept_are_there_in_every_phase() -> None:
    kept = carried(replace(PLAIN, keeps_buckets=True))
    kept = replace(kept, sync=replace(kept.sync, buckets=0))
    without = memory.estimate(carried(PLAIN)).phase(Phase.UPDATE_ACTOR)
    found = memory.estimate(kept).phase(Phase.UPDATE_ACTOR)
    assert found is not None and without is not None
    assert found.peak_bytes - without.peak_bytes == 2 * BUCKET
    transfer = sizes(moments(kept)["transfer"])
    assert "sync_buckets" not in transfer and transfer["sync_buckets_kept"] == 2 * BUCKET
    generating, plain = (_phase(job, Phase.ROLLOUT).peak_bytes for job in (kept, carried(PLAIN)))
    assert generating - plain == 3 * BUCKET


def test_engines_on_both_kinds_of_gpus_are_served_one_after_the_other() -> None:
    found = moments(carried(NCCL, colocated=True))
    assert list(found) == ["send", "transfer", "receive"]
    assert sizes(found["send"])["sync_buckets"] == 2 * BUCKET
    assert "engine_weights" not in sizes(found["send"])


@pytest.mark.parametrize("engine", [RolloutEngine.VLLM, RolloutEngine.SGLANG])
def test_a_larger_bucket_never_takes_less(engine: RolloutEngine) -> None:
    jobs = [carried(NCCL, bucket=size * MIB, engine=engine) for size in (256, 1024, 4096)]
    peaks = [_phase(job, Phase.UPDATE_WEIGHTS).peak_bytes for job in jobs]
    assert peaks == sorted(peaks) and peaks[0] < peaks[-1]


@pytest.mark.parametrize(
    ("carrier", "name", "size"),
    [
        (replace(PLAIN, host_buckets=2), "sync_buckets_on_host", 8 * 2 * BUCKET),
        (replace(PLAIN, host_shards=True), "sync_shards_on_host", 4 * 7_615_616_512),
        (replace(PLAIN, host_model=True), "sync_model_on_host", 2 * 7_615_616_512),
    ],
)
def test_what_waits_on_the_host(carrier: Carrier, name: str, size: int) -> None:
    terms = {term.name: term for term in memory.estimate(carried(carrier)).host_terms}
    plain = {term.name for term in memory.estimate(carried(PLAIN)).host_terms}
    assert set(terms) - plain == {name}
    assert terms[name].bytes == size
    assert terms[name].low == size < terms[name].high


def _phase(workload: Workload, phase: Phase) -> memory.PhaseEstimate:
    found = memory.estimate(workload).phase(phase)
    assert found is not None
    return found
