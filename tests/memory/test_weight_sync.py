"""What sending weights to the rollout engine holds, by release and strategy, on both sides."""

import json

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.memory.measured import RECORDED
from tuner import memory
from tuner.dtypes import DType
from tuner.memory.ledger.terms import Term
from tuner.memory.residents import states_of
from tuner.memory.weight_sync.transfer import gathered_tensor, sync_moments
from tuner.models import find_model
from tuner.units import MIB
from tuner.workload import Backend, Engine, Phase, WeightSync, Workload

SEVEN = workloads.grpo_7b()
N, V, H, LAYER, INTERMEDIATE = 7_615_616_512, 152_064, 3_584, 233_057_792, 18_944
EMBEDDING = V * H
ROOT = 2 * EMBEDDING + H  # embedding, projection and final norm
BUCKET = WeightSync(bucket_bytes=2048 * MIB, gathers_whole_model=False)
WHOLE = replace(BUCKET, gathers_whole_model=True)


def engine(backend: Backend = Backend.FSDP2, **changes: object) -> Engine:
    return replace(SEVEN.actor.engine, backend=backend, **changes)


def moments(one: Engine, sync: WeightSync, **rollout: object) -> dict[str, dict[str, int]]:
    """Sizes by name, moment by moment; engine weights are those of a replica of two GPUs."""
    workload = replace(SEVEN, sync=sync, actor=replace(SEVEN.actor, engine=one)).with_rollout(**rollout)
    states = states_of(workload.model, one, "actor")
    found = sync_moments(workload, states)
    return {moment.name: _sizes(moment.terms) for moment in found}


def _sizes(terms: tuple[Term, ...]) -> dict[str, int]:
    return {term.name: term.bytes for term in terms}


def test_a_bucket_and_the_largest_tensor():
    """Float32: 152,064 x 3,584 x 4 B = 2.18 GB beside a bucket of 2 GiB."""
    found = moments(engine(), BUCKET)
    assert found == {
        "transfer": {
            "actor_parameters": 4 * N // 8,
            "sync_buckets": 2048 * MIB,
            "sync_tensor": 4 * EMBEDDING,
            "engine_weights": N,  # 2 B over 2 GPUs
        }
    }


def test_a_tensor_that_is_cast_first_is_there_twice():
    cast = replace(BUCKET, sent_dtype=DType.BFLOAT16)
    assert moments(engine(), cast)["transfer"]["sync_tensor"] == (4 + 2) * EMBEDDING
    stored = engine(stored_dtype=DType.BFLOAT16)
    assert moments(stored, cast)["transfer"]["sync_tensor"] == 2 * EMBEDDING


@pytest.mark.parametrize(("ours", "theirs"), [(1, 0), (1, 1), (2, 0)])
def test_buckets_on_both_sides(ours, theirs):
    found = moments(engine(), replace(BUCKET, buckets=ours, engine_buckets=theirs))
    assert found["transfer"]["sync_buckets"] == (ours + theirs) * 2048 * MIB


def test_fsdp1_copies_its_shards_out_of_gathered_units():
    """Root and a layer whole in float32, with a copy of the layer's largest matrix or of the embedding."""
    found = moments(engine(Backend.FSDP), BUCKET)
    gathered = max(LAYER + H * INTERMEDIATE, EMBEDDING)
    assert found["gather"] == {
        "actor_parameters": N // 2,
        "sync_shards": N // 2,
        "sync_units": 4 * (ROOT + gathered),
        "engine_weights": N,
    }
    assert found["transfer"]["sync_shards"] == N // 2
    assert "sync_units" not in found["transfer"]


@pytest.mark.parametrize(("backend", "copies"), [(Backend.FSDP, 1), (Backend.FSDP2, 0)])
def test_fsdp1_copies_the_shard_of_a_tied_matrix_once_more(backend: Backend, copies: int) -> None:
    """Qwen3-4B: 151,936 x 2,560 numbers in float32 over two ranks, 0.72 GiB, until the transfer has ended."""
    model = find_model("Qwen/Qwen3-4B")
    parallel = replace(SEVEN.actor.engine.parallel, shard=2)
    states = states_of(model, engine(backend, parallel=parallel), "actor")
    tied = replace(SEVEN, model=model, sync=BUCKET)
    shard = 4 * 151_936 * 2_560 // 2
    for moment in sync_moments(tied, states):
        second = [term.bytes for term in moment.terms if term.name == "sync_tied_shard"]
        assert second == [shard] * copies


def test_a_matrix_of_its_own_has_one_shard() -> None:
    found = moments(engine(Backend.FSDP), BUCKET)
    assert all("sync_tied_shard" not in terms for terms in found.values())


def test_a_release_may_gather_before_the_engine_wakes():
    early = replace(BUCKET, resumes_first=False)
    assert "engine_weights" not in moments(engine(Backend.FSDP), early)["gather"]
    assert "engine_weights" in moments(engine(Backend.FSDP), early)["transfer"]


@pytest.mark.parametrize(
    ("backend", "changes", "copies"),
    [
        (Backend.FSDP2, {}, 1),  # the state dict holds what was loaded
        (Backend.FSDP2, {"stages_weights": False}, 0),
        (Backend.FSDP, {}, 1),  # the copies in the state dict
        (Backend.FSDP, {"offloads_first": False}, 2),
    ],
)
def test_offloaded_weights_during_the_transfer(backend, changes, copies):
    found = moments(engine(backend, param_offload=True), replace(BUCKET, **changes))["transfer"]
    assert found.get("actor_parameters", 0) + found.get("sync_shards", 0) == copies * N // 2


def test_streamed_weights_never_lie_on_the_card():
    assert "actor_parameters" not in moments(engine(streamed_offload=True), BUCKET)["transfer"]


def test_a_cache_that_wakes_with_the_weights_is_there_during_the_transfer():
    found = moments(engine(), BUCKET, staged_wake_up=False)
    cache = memory.rollout_memory(SEVEN).kv_bytes
    assert found["transfer"]["kv_cache"] == cache > 0
    assert "kv_cache" not in moments(engine(), BUCKET)["transfer"]


def test_adapters_summon_one_layer_or_everything():
    lora = workloads.grpo_lora_7b().actor.engine
    stored = lora.stored_dtype.bytes
    found = moments(lora, BUCKET)
    assert found["gather"]["sync_summoned"] == stored * LAYER
    assert moments(lora, WHOLE)["gather"]["sync_summoned"] == stored * N
    assert "sync_tensor" not in found["transfer"]
    assert found["transfer"]["sync_buckets"] == 2048 * MIB


def test_adapters_out_of_all_units_leave_a_copy_of_every_shard_but_the_roots():
    lora = workloads.grpo_lora_7b().actor.engine
    assert lora.lora is not None
    whole = moments(replace(lora, backend=Backend.FSDP), WHOLE)["gather"]
    root = 2 * 152_064 * 3584 + 3584  # embedding, head and the last norm of Qwen2.5-7B
    adapters, tensor = lora.lora.parameters, 3584 * 18_944
    shard = -(-(N + adapters - root) // lora.parallel.shard)
    assert whole["sync_summoned_shards"] == lora.stored_dtype.bytes * (adapters + tensor + shard)
    for backend, sync in ((Backend.FSDP, BUCKET), (Backend.FSDP2, WHOLE)):
        assert "sync_summoned_shards" not in moments(replace(lora, backend=backend), sync)["gather"]


def test_merged_adapters_travel_as_a_whole_model():
    lora = workloads.grpo_lora_7b().actor.engine
    assert lora.lora is not None
    merged = replace(lora, lora=replace(lora.lora, merged_for_rollout=True))
    plain = replace(lora, lora=None)
    assert (
        moments(merged, BUCKET)["transfer"]["sync_tensor"]
        == moments(plain, BUCKET)["transfer"]["sync_tensor"]
    )


GATE_AND_UP = 2 * 128 * 768 * 2_048  # of all experts of a layer of Qwen3-30B-A3B


@pytest.mark.parametrize(
    ("apart", "name", "held"),
    [
        (False, "Qwen3-30B-A3B", 2 * GATE_AND_UP),  # of this layer and of the one before
        (True, "Qwen3-30B-A3B", GATE_AND_UP),
        (False, "gpt-oss-20b", 32 * 2 * 2_880 * 2_880),  # leaves as it is; the embedding has fewer
    ],
)
def test_experts_cut_out_of_one_tensor_hold_it_until_the_next_is_there(apart, name, held):
    model, sync = find_model(name), replace(BUCKET, experts_apart=apart)
    held = max(held, model.embedding_parameters)
    assert gathered_tensor(model, engine(), sync).bytes == 4 * held


def test_the_output_matrix_comes_behind_the_last_experts():
    """151,936 x 2,048 entries, which are more than gate and up projections of 64 experts."""
    model = find_model("Qwen3-30B-A3B")
    assert model.moe is not None
    few = replace(model, moe=replace(model.moe, experts=64))
    both = GATE_AND_UP // 2 + 151_936 * 2_048
    assert gathered_tensor(few, engine(), BUCKET).bytes == 4 * both
    tied = replace(few, tied_embeddings=True)
    assert gathered_tensor(tied, engine(), BUCKET).bytes == 4 * GATE_AND_UP  # two layers' halves


def test_the_shards_of_what_comes_later_are_not_there_beside_a_layer():
    """Twelve layers of Qwen3-30B-A3B over two ranks, a layer of which is more than the embedding.

    The root's are cut when its layers are done, and those of down projections behind gate and up.
    """
    model = replace(find_model("Qwen3-30B-A3B"), layers=12)
    parallel = replace(SEVEN.actor.engine.parallel, shard=2)
    states = states_of(model, engine(Backend.FSDP, parallel=parallel), "actor")
    gather = sync_moments(replace(SEVEN, model=model, sync=BUCKET), states)[0]
    root = 2 * 151_936 * 2_048 + 2_048
    attention = 2_048 * (2 * 4_096 + 2 * 512) + 2 * 128
    layer = attention + GATE_AND_UP * 3 // 2 + 128 * 2_048 + 2 * 2_048
    assert _sizes(gather.terms)["sync_units"] == 4 * (
        root + layer + GATE_AND_UP - (root + GATE_AND_UP // 2) // 2
    )


def test_nothing_comes_behind_the_last_matrix_of_a_dense_layer():
    parallel = replace(SEVEN.actor.engine.parallel, shard=2)
    first = engine(Backend.FSDP, parallel=parallel)
    gather = sync_moments(replace(SEVEN, sync=BUCKET), states_of(SEVEN.model, first, "actor"))[0]
    model = SEVEN.model
    root = 2 * model.embedding_parameters + model.hidden
    layer, matrix = model.largest_layer_parameters, model.hidden * model.intermediate
    beside = max(layer + matrix - root // 2, model.embedding_parameters)
    assert _sizes(gather.terms)["sync_units"] == 4 * (root + beside)


def test_a_hand_over_of_four_layers_took_what_is_predicted():
    """What it holds beside the trained shards, while its state dict is made and while that is handed over."""
    readings = json.loads((RECORDED / "fsdp1-experts-handed-over-2xh200.json").read_text())["readings"]
    model = replace(find_model("Qwen3-30B-A3B"), layers=4)
    first = engine(Backend.FSDP, parallel=replace(SEVEN.actor.engine.parallel, shard=2))
    states = states_of(model, first, "actor")
    found = sync_moments(replace(SEVEN, model=model, sync=BUCKET).with_rollout(colocated=False), states)
    gathering, travelling = (
        sum(size for name, size in _sizes(moment.terms).items() if name.startswith("sync_"))
        for moment in found[:2]
    )
    for rank in (0, 1):
        steps = {row["step"]: row for row in readings if row["rank"] == rank}
        before = steps["second pass"]["allocated_bytes"]
        assert steps["handed over"]["peak_bytes"] - before == pytest.approx(travelling, rel=1e-6)
        made = steps["state dict"]["peak_bytes"] - before
        assert made == pytest.approx(gathering, rel=1e-4)


def test_megatron_gathers_the_parts_of_a_tensor_and_joins_them():
    workload = workloads.grpo_32b_megatron()
    tensor = workload.model.embedding_parameters * 2
    one = workload.actor.engine
    assert one.parallel.tensor > 1
    assert gathered_tensor(workload.model, one, BUCKET).bytes == 2 * tensor
    alone = replace(one, parallel=replace(one.parallel, tensor=1))
    assert gathered_tensor(workload.model, alone, BUCKET).bytes == tensor
    shared = replace(one, parallel=replace(one.parallel, tensor=1, expert=2))
    assert gathered_tensor(workload.model, shared, BUCKET).bytes == tensor  # it has no experts to divide


def test_megatron_gathers_one_expert_of_each_rank_at_a_time():
    """DeepSeek-V3: gate and up of an expert are 2 x 7,168 x 2,048, the embedding is 129,280 x 7,168.

    With 32 ranks an expert of each and the one that is converted are more than the embedding, with 8 less.
    """
    model = find_model("DeepSeek-V3")
    one = workloads.grpo_32b_megatron().actor.engine
    expert, embedding = 2 * 7_168 * 2_048 * 2, 129_280 * 7_168 * 2
    for ranks, size in ((32, 33 * expert), (8, embedding)):
        apart = replace(one, parallel=replace(one.parallel, tensor=1, expert=ranks))
        assert gathered_tensor(model, apart, BUCKET).bytes == size
    stacked = replace(one, stacks_experts=True, parallel=replace(one.parallel, tensor=1, expert=8))
    assert gathered_tensor(model, stacked, BUCKET).bytes == 2 * 256 * expert


def test_megatron_keeps_gate_and_up_of_a_dense_layer_in_one_tensor():
    """With 32,000 words, 2 x 5,120 x 27,648 entries are more than the embedding."""
    workload = workloads.grpo_32b_megatron()
    small = replace(workload.model, vocab=32_000)
    assert gathered_tensor(small, workload.actor.engine, BUCKET).bytes == 2 * 2 * (2 * 5_120 * 27_648)


def _peak(workload: Workload) -> int:
    found = memory.estimate(workload).phase(Phase.UPDATE_WEIGHTS)
    assert found is not None
    return found.peak_bytes


def test_more_in_a_bucket_never_takes_less():
    sizes = [_peak(replace(SEVEN, sync=replace(BUCKET, bucket_bytes=size * MIB))) for size in (0, 512, 4096)]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]


def test_the_phase_counts_the_weights_of_the_trainer_once():
    found = memory.estimate(SEVEN).phase(Phase.UPDATE_WEIGHTS)
    assert found is not None
    for moment in found.moments:
        assert [term.name for term in moment.terms].count("actor_parameters") == 1
