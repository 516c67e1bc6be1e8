"""What sending weights to the rollout engine gathers."""

from dataclasses import replace

from tests import workloads
from tuner.memory.weight_sync import sync_bytes
from tuner.units import MIB
from tuner.workload import Backend, WeightSync

BUCKET = WeightSync(bucket_bytes=2048 * MIB, gathers_whole_model=False)
WHOLE = replace(BUCKET, gathers_whole_model=True)


def test_a_bucket_and_the_largest_tensor() -> None:
    workload = workloads.grpo_7b()
    engine = replace(workload.actor.engine, backend=Backend.FSDP2)
    tensor = 4 * workload.model.vocab * workload.model.hidden
    assert sync_bytes(workload.model, engine, BUCKET) == BUCKET.bucket_bytes + tensor
    shard = 4 * -(-workload.model.parameters // engine.parallel.shard)
    fsdp1 = replace(engine, backend=Backend.FSDP)
    assert sync_bytes(workload.model, fsdp1, BUCKET) == BUCKET.bucket_bytes + tensor + shard


def test_adapters_summon_one_layer_or_everything() -> None:
    workload = workloads.grpo_lora_7b()
    model, engine = workload.model, workload.actor.engine
    stored = engine.stored_dtype.bytes
    assert sync_bytes(model, engine, BUCKET) == stored * model.largest_layer_parameters
    assert sync_bytes(model, engine, WHOLE) == stored * model.parameters


def test_merged_adapters_travel_as_a_whole_model() -> None:
    workload = workloads.grpo_lora_7b()
    assert workload.actor.engine.lora is not None
    merged = replace(workload.actor.engine, lora=replace(workload.actor.engine.lora, merged_for_rollout=True))
    plain = replace(workload.actor.engine, lora=None)
    assert sync_bytes(workload.model, merged, BUCKET) == sync_bytes(workload.model, plain, BUCKET)
