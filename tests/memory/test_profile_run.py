"""What the rollout engine's profile run, its images, log-probabilities and weights are taken to be of."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.workloads import QWEN3_30B_A3B, QWEN25_7B, grpo_7b, grpo_moe_30b
from tuner.dtypes import DType
from tuner.memory.rollout.encoder import encoder_numbers, engine_patch_bytes
from tuner.memory.rollout.log_probs import engine_log_probs
from tuner.memory.rollout.profile_run import (
    engine_activations,
    least_activations,
    profile_numbers,
    step_width,
)
from tuner.memory.rollout.weights import engine_weights
from tuner.model_shape import ModelShape
from tuner.vision_tower import VisionTower
from tuner.workload import Images, Rollout, RolloutEngine, Workload


def job(**changes: Any) -> Workload:
    """A step of 100 tokens, of which each is sampled; two bytes a logit."""
    small = {"tensor_parallel": 1, "max_batched_tokens": 100, "max_model_tokens": 100, "sampler_bytes": 2}
    return grpo_7b().with_rollout(**{**small, **changes})


# Hidden states 100 x 3,584 x 2 B, and the larger of the layers, 2 x 100 x (3 x 18,944 + 3 x 3,584) =
# 13,516,800 B, and of the logits, 2 x 100 x 152,064 = 30,412,800 B.
STEP = 716_800 + 30_412_800
# A copy of the embedding, and 100 tokens twice: 2 x 3,584 x (152,064 + 200).
COMPILING = 1_091_428_352


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"tunes_at_start": True}, COMPILING),
        ({"tunes_at_start": True, "cuda_graphs": False}, STEP),  # nothing is compiled
        ({}, STEP),
    ],
)
def test_an_engine_that_compiles_within_the_profile_run_needs_the_embedding_again(
    changes: dict[str, Any], expected: int
) -> None:
    workload = job(**changes)
    assert engine_activations(workload).bytes == expected
    assert least_activations(workload) == STEP  # compiled before


def test_no_more_sequences_are_sampled_than_a_step_has_tokens() -> None:
    few, many = job(max_sequences=64).generator, job(max_sequences=256).generator
    assert [profile_numbers(QWEN25_7B, rollout)["s"] for rollout in (few, many)] == [64, 100]


@pytest.mark.parametrize(
    ("changes", "shared", "width"),
    [({}, 0, 6_144), ({}, 1_000, 7_144), ({"intermediate": 9_000}, 1_000, 9_000)],
)
def test_the_widest_mlp_of_a_sparse_model_is_its_experts_or_the_dense_one(
    changes: dict[str, Any], shared: int, width: int
) -> None:
    """Eight experts of 768 are 6,144 wide, as is its dense MLP."""
    assert QWEN3_30B_A3B.moe is not None
    moe = replace(QWEN3_30B_A3B.moe, shared_intermediate=shared)
    assert step_width(replace(QWEN3_30B_A3B, moe=moe, **changes)) == width
    assert step_width(QWEN25_7B) == 18_944


# -- images --------------------------------------------------------------------------------------

# Three heads of four entries; an MLP of 20; 30 numbers of a patch, of which two by two become a token.
TOWER = VisionTower(
    blocks=2,
    block_unit=1000,
    width=12,
    heads=3,
    inner=20,
    patch=14,
    values=30,
    merge=2,
    mergers=4,
    kept_inner=1,
    gradients_inner=1,
)
OUTSIDE = 2 * 30 + 4 * 4 + 2 * 2 * 12  # the patch, its tables, the stream and its norm
ATTENTION = 7 * 2 * 12 + 4 * 4 * 12  # seven tensors, and the rotation in float32


def rollout(**changes: Any) -> Rollout:
    return job(**changes).generator


@pytest.mark.parametrize(
    ("tower", "ranks", "least", "expected"),
    [
        ({}, 1, False, OUTSIDE + ATTENTION),
        ({}, 7, False, OUTSIDE + 52),  # 360 / 7 = 51.4
        ({}, 1, True, OUTSIDE + 7 * 2 * 12),  # kernels that rotate without copies
        ({"rotates": False}, 1, False, OUTSIDE - 16 + 7 * 2 * 12),
        ({"inner": 100}, 1, False, OUTSIDE + 3 * 2 * 100),
    ],
)
def test_a_patch_in_the_engines_tower(tower: dict[str, Any], ranks: int, least: bool, expected: int) -> None:
    own = replace(TOWER, **tower)
    assert engine_patch_bytes(own, rollout(tensor_parallel=ranks), least=least) == expected


@pytest.mark.parametrize(
    ("image_tokens", "step_tokens", "tokens"),
    [
        (None, 8_192, 16_384),  # one of the largest, though a step has fewer tokens
        (None, 40_000, 32_768),
        (256, 8_192, 8_192),
        (256, 1_000, 768),
        (256, 100, 256),
    ],
)
def test_as_many_images_as_the_cache_has_room_for(
    image_tokens: int | None, step_tokens: int, tokens: int
) -> None:
    own = rollout(max_batched_tokens=step_tokens, max_model_tokens=None)
    numbers = encoder_numbers(replace(TOWER, image_tokens=image_tokens), own)
    assert numbers == {"P_e": 4 * tokens, "a_e": OUTSIDE + ATTENTION, "T_e": tokens, "n_v": 4}
    least = encoder_numbers(replace(TOWER, image_tokens=image_tokens), own, least=True)
    assert least["a_e"] == OUTSIDE + 168


def seeing(**changes: Any) -> Workload:
    one = Images(per_prompt=1, pixels=1, tokens=1, least_tokens=1, most_tokens=1)
    tower = replace(TOWER, image_tokens=1_000)
    workload = replace(job(**changes), model=replace(QWEN25_7B, tower=tower))
    return workload.with_batch(images=one)


def test_images_lie_beside_a_step_in_the_profile_run() -> None:
    """1,000 tokens of four mergers, 4 x 2 x 1,000 x 3,584 B; 4,000 patches of 484 B need less."""
    assert engine_activations(seeing()).bytes == 28_672_000 + STEP
    assert engine_activations(seeing(tunes_at_start=True)).bytes == 28_672_000 + STEP  # not compiled then
    assert least_activations(seeing()) == 28_672_000 + STEP
    other = seeing(engine=RolloutEngine.SGLANG)
    assert engine_activations(other).bytes == least_activations(other) == STEP


# -- log-probabilities and weights ---------------------------------------------------------------


def test_log_probabilities_take_a_float32_row_of_each_sequence_at_most() -> None:
    term = engine_log_probs(job(returns_log_probs=True, max_sequences=64))
    assert term is not None
    assert (term.low, term.bytes, term.high) == (0, 0, 4 * 64 * 152_064)
    many = engine_log_probs(job(returns_log_probs=True, max_sequences=256))
    assert many is not None
    assert many.high == 4 * 100 * 152_064
    assert engine_log_probs(job(returns_log_probs=False)) is None
    assert engine_log_probs(job(returns_log_probs=True, engine=RolloutEngine.TRANSFORMERS)) is None


EXPERTS = 48 * 128 * 3 * 2_048 * 768
ENDS = 2 * 151_936 * 2_048  # embedding and output projection


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # Two bytes each; four ranks of tensor parallelism share all of them, or eight ranks the experts.
        ({}, lambda rest: (2 * rest + 2 * EXPERTS) / 4),
        ({"expert_parallel": 8}, lambda rest: 2 * rest / 4 + 2 * EXPERTS / 8),
        ({"expert_parallel": 2}, lambda rest: (2 * rest + 2 * EXPERTS) / 4),
        ({"pipeline_parallel": 2}, lambda rest: (2 * rest + 2 * EXPERTS) / 8),
        # One byte each, but for the two ends of the model.
        ({"weight_dtype": DType.FLOAT8}, lambda rest: (rest + ENDS + EXPERTS) / 4),
        (
            {"weight_dtype": DType.FLOAT8, "expert_parallel": 8},
            lambda rest: (rest + ENDS) / 4 + EXPERTS / 8,
        ),
    ],
)
def test_weights_of_a_sparse_model(changes: dict[str, Any], expected: Any) -> None:
    model: ModelShape = QWEN3_30B_A3B
    workload = grpo_moe_30b().with_rollout(tensor_parallel=4, **changes)
    rest = model.parameters - EXPERTS
    assert engine_weights(workload).bytes == pytest.approx(expected(rest), abs=1)
