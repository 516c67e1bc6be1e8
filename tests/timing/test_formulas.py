"""The building blocks of the time model against arithmetic done by hand, and against measurements."""

import json

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.corpus import DATA
from tests.memory.measured import RECORDED
from tuner.dtypes import DType
from tuner.gpus import find_gpu
from tuner.model_shape import LatentAttention
from tuner.timing import communication as comm
from tuner.timing.assumptions import COLLECTIVE_S, LINK_SHARE, NETWORK_HOP_S, NODE_HOP_S
from tuner.timing.decode import RolloutInput, cache_read_bytes, weight_read_bytes
from tuner.timing.head import head_seconds
from tuner.timing.layer import average_layer, cached_keys, visible_keys
from tuner.timing.tokens import micro_batches_of
from tuner.workload import HeadKind, Lengths, OutputHead, Padding

MEASURED = DATA / "output-head-seconds-h200.json"
TWO_NODES = workloads.cluster(nodes=2)


def test_average_layer_of_a_dense_model():
    layer = average_layer(workloads.QWEN25_7B)
    assert layer.parameters == workloads.QWEN25_7B.layer_parameters(0) == 233_057_792
    assert layer.active_parameters == layer.parameters
    assert layer.attention_width == 28 * (128 + 128)
    assert layer.gated_values == 18944
    assert layer.routed_copies == 0


def test_average_layer_of_a_sparse_model():
    layer = average_layer(workloads.QWEN3_30B_A3B)
    assert layer.gated_values == 8 * 768
    assert layer.routed_copies == 8
    assert layer.parameters - layer.active_parameters == 120 * 3 * 2048 * 768


def test_a_value_head_changes_no_layer():
    model = workloads.QWEN25_7B
    assert average_layer(replace(model, value_head=True)) == average_layer(model)


def test_keys_seen_in_a_window():
    model = replace(workloads.QWEN25_7B, sliding_window=1024, windowed_layers=14)
    layer = average_layer(model)
    assert visible_keys(layer, 512) == 256
    assert visible_keys(layer, 4096) == 0.5 * 1024 * (1 - 1024 / 8192) + 0.5 * 2048
    assert cached_keys(layer, 4096) == 0.5 * 1024 + 0.5 * 4096


def test_collectives_within_and_across_nodes():
    link, card = 450e9 * LINK_SHARE, 50e9 * LINK_SHARE
    assert comm.gather_seconds(8e9, TWO_NODES, 8) == pytest.approx(7e9 / link + COLLECTIVE_S + 7 * NODE_HOP_S)
    # 16 ranks: eight network cards per node carry the ring together.
    across = COLLECTIVE_S + 14 * NODE_HOP_S + NETWORK_HOP_S
    assert comm.gather_seconds(16e9, TWO_NODES, 16) == pytest.approx(15e9 / (8 * card) + across)
    # Two copies of a shard, one in each node: one card.
    twice = COLLECTIVE_S + 2 * NETWORK_HOP_S
    assert comm.all_reduce_seconds(1e9, TWO_NODES, 2, stride=8) == pytest.approx(1e9 / card + twice)
    assert comm.all_to_all_seconds(1e9, TWO_NODES, 16) > comm.all_to_all_seconds(1e9, TWO_NODES, 8)
    assert comm.gather_seconds(8e9, TWO_NODES, 1) == comm.all_reduce_seconds(8e9, TWO_NODES, 1) == 0.0


def test_micro_batches_hold_all_tokens_of_a_rank():
    workload = workloads.grpo_7b()
    batch = workload.batch
    packed = micro_batches_of(replace(batch, sorted_ranks=True), workload.actor_update)
    assert packed.count == 128 * 8 // 8 * 2048 // 16384
    assert packed.count * packed.tokens == 128 * 2048
    padded = micro_batches_of(batch, workload.with_actor_engine(packed=False).actor_update)
    assert padded.count * padded.tokens == 128 * 4096
    assert padded.sequence_tokens == 4096
    assert 2048 < packed.sequence_tokens < 4096


def test_an_engine_that_pads_to_the_longest_computes_what_lengths_are_known_to_be():
    """The longest of all that run at a time on ranks that wait for each other, and never the maximum."""
    workload = workloads.grpo_7b().with_actor_engine(packed=False, padding=Padding.MICRO_BATCH)
    step_pass, longest = workload.actor_update, workload.batch.sequence_tokens
    assumed = micro_batches_of(workload.batch, step_pass)
    assert 0.85 * longest < assumed.sequence_tokens < longest
    assert assumed.count * assumed.tokens == pytest.approx(128 * assumed.sequence_tokens)
    short = workload.with_batch(lengths=Lengths(mean_prompt=100, mean_response=300)).batch
    assert 400 < micro_batches_of(short, step_pass).sequence_tokens < longest
    maximum = workload.with_actor_engine(padding=Padding.MAXIMUM).actor_update
    assert micro_batches_of(short, maximum).sequence_tokens == longest


def test_one_sequence_on_one_gpu_is_padded_by_nothing():
    alone = workloads.grpo_7b(gpus_per_node=1).with_actor_engine(packed=False, padding=Padding.MICRO_BATCH)
    one = replace(alone.actor.update.batching, dynamic=False, micro_batch_sequences=1)
    alone = alone.with_actor(update=replace(alone.actor.update, batching=one))
    found = micro_batches_of(alone.batch, alone.actor_update)
    assert found.sequence_tokens == alone.batch.mean_sequence_tokens


def test_decoding_reads_its_share_of_weights_and_cache():
    workload = workloads.grpo_7b()
    body = workload.model.active_parameters
    assert weight_read_bytes(RolloutInput.of(workload), 64) == body * 2 / 2  # two bytes, two GPUs
    context = 512 + 1536 / 2
    assert cache_read_bytes(RolloutInput.of(workload), 10) == 10 * context * 28 * 2 * 4 * 128 / 2 * 2
    replicated = workload.with_rollout(tensor_parallel=8)
    assert cache_read_bytes(RolloutInput.of(replicated), 10) == cache_read_bytes(
        RolloutInput.of(workload.with_rollout(tensor_parallel=4)), 10
    )


def test_a_latent_cache_is_not_divided():
    latent = LatentAttention(
        q_lora_rank=None, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128
    )
    workload = workloads.grpo_7b()
    workload = replace(workload, model=replace(workload.model, latent=latent))
    one, four = (
        cache_read_bytes(RolloutInput.of(workload.with_rollout(tensor_parallel=tp)), 10) for tp in (1, 4)
    )
    assert one == four > 0


HEADS = {
    "eager: bf16 logits, float32 upcast": OutputHead(kind=HeadKind.LOGITS, compiled=False),
    "the same, entropy and log-prob under torch.compile": OutputHead(kind=HeadKind.LOGITS),
    "entropy in chunks of 2048": OutputHead(kind=HeadKind.LOGITS, chunk_tokens=2048),
    "chunking + checkpointing": OutputHead(kind=HeadKind.LOGITS, chunk_tokens=2048, checkpointed=True),
    "verl fused, torch backend": OutputHead(kind=HeadKind.FUSED_TORCH),
    "verl fused, triton backend": OutputHead(kind=HeadKind.FUSED_TRITON),
}


@pytest.mark.parametrize("card", ["h100", "h200"])
def test_our_own_head_takes_what_the_benchmark_measured(card):
    """Seconds of each pass at each published shape; products of narrow models take an eighth longer."""
    shapes = json.loads((RECORDED / f"output-head-{card}.json").read_text())["shapes"]
    assert len(shapes) >= 4
    for shape in shapes:
        (own,) = (head for head in shape["heads"] if head["name"] == "recompute")
        for trains, name in ((False, "forward"), (True, "both")):
            modelled = head_seconds(
                OutputHead(kind=HeadKind.FUSED_TUNER),
                tokens=shape["tokens"],
                hidden=shape["hidden"],
                vocab=shape["vocabulary"],
                gpu=find_gpu(f"{card}-sxm"),
                dtype=DType.BFLOAT16,
                entropy=True,
                trains=trains,
            )
            measured = own["speed"][name]["median_ms"] / 1e3
            off = 0.15 if shape["hidden"] >= 2048 else 0.2
            assert modelled == pytest.approx(measured, rel=off), (shape["hidden"], name)


@pytest.mark.parametrize("name", HEADS)
def test_head_against_measurements(name):
    """Forward and backward within 35 % for each shape; forward alone within a factor of 1.6."""
    rows = [row for row in json.loads(MEASURED.read_text())["rows"] if row["variant"].startswith(name)]
    assert len(rows) >= 4
    for row in rows:
        trains = row["mode"] == "fwdbwd"
        modelled = head_seconds(
            HEADS[name],
            tokens=row["tokens"],
            hidden=row["hidden"],
            vocab=row["vocab"],
            gpu=workloads.H200,
            dtype=DType.BFLOAT16,
            entropy=True,
            trains=trains,
        )
        ratio = modelled * 1e3 / row["ms"]
        assert (0.74 < ratio < 1.35) if trains else (0.62 < ratio < 1.6), (row, ratio)
