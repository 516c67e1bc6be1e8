"""Sequences end where the rollout engine ends them: at a ``max_model_len`` below prompt and response."""

import pytest

from tests.tables import bases, scene
from tuner.batching import micro_batch_tokens
from tuner.timing.responses import longest_response
from tuner.workload import Batch, Phase, Workload

LENGTHS = ("data.max_prompt_length=1024", "data.max_response_length=15360")
CUT = "actor_rollout_ref.rollout.max_model_len=4096"


def job(version: str, *overrides: str) -> Workload:
    return scene(bases()[f"grpo-{version}"], [*LENGTHS, CUT, *overrides]).workload


def update_tokens(workload: Workload) -> int:
    update = workload.pass_of(Phase.UPDATE_ACTOR)
    assert update is not None
    return micro_batch_tokens(workload.batch, update)


@pytest.mark.parametrize(
    ("version", "engine", "mode", "longest"),
    [
        ("0.9.1", "vllm", "async", 4096),
        ("0.9.1", "sglang", "async", 4096),
        ("0.7.0", "vllm", "async", 16384),  # reads no such key
        ("0.6.1", "vllm", "sync", 4096),
        ("0.6.1", "vllm", "async", 16384),  # its servers take the length of a sequence
        ("0.6.1", "sglang", "sync", 16384),  # asserts that a whole one fits
    ],
)
def test_as_far_as_the_engine_is_built_for(version: str, engine: str, mode: str, longest: int) -> None:
    rollout = f"actor_rollout_ref.rollout.name={engine}", f"actor_rollout_ref.rollout.mode={mode}"
    assert job(version, *rollout).batch.reached_tokens == longest


@pytest.mark.parametrize(
    ("version", "override", "longest"),
    [
        ("0.9.1", "", 32768),
        ("0.7.0", "", 32768),
        ("0.9.1", "+actor_rollout_ref.model.override_config.rope_scaling.type=yarn", 61024),
        ("0.6.1", "", 61024),  # refuses to start
    ],
)
def test_as_far_as_the_model_has_positions(version: str, override: str, longest: int) -> None:
    long = ["data.max_prompt_length=1024", "data.max_response_length=60000", *filter(None, [override])]
    assert scene(bases()[f"grpo-{version}"], long).workload.batch.reached_tokens == longest


def test_a_budget_need_not_hold_more_than_such_a_sequence() -> None:
    budget = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192"
    assert update_tokens(job("0.9.1", budget)) == 8192
    whole = "actor_rollout_ref.rollout.max_model_len=16384"
    assert update_tokens(job("0.9.1", budget, whole)) == 16384  # one whole sequence


@pytest.mark.parametrize(("packed", "tokens"), [(True, 2 * 4096), (False, 2 * 16384)])
def test_padding_goes_on_to_prompt_and_response(packed: bool, tokens: int) -> None:
    static = (
        "actor_rollout_ref.actor.use_dynamic_bsz=False",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2",
        "actor_rollout_ref.rollout.mode=sync",
        f"actor_rollout_ref.model.use_remove_padding={packed}",
    )
    assert update_tokens(job("0.6.1", *static)) == tokens


def test_lengths_that_nobody_says_end_there_as_well() -> None:
    batch: Batch = job("0.9.1").batch
    assert batch.mean_prompt_tokens == 512
    assert batch.mean_response_tokens == (4096 - 512) / 2
    assert longest_response(batch) <= 4096 - 512
    assert batch.room_tokens == 4096


def test_a_length_that_no_sequence_reaches_changes_nothing() -> None:
    short = scene(bases()["grpo-0.9.1"], [CUT]).workload
    assert short.batch.engine_tokens is None
    assert short.batch.reached_tokens == short.batch.sequence_tokens == 4096


@pytest.mark.parametrize("version", ["0.4.0", "0.6.1", "0.9.1"])
def test_responses_get_as_long_as_the_engine_is_told(version: str) -> None:
    told = ["actor_rollout_ref.rollout.response_length=9000", "actor_rollout_ref.rollout.prompt_length=7000"]
    batch = scene(bases()[f"grpo-{version}"], [*LENGTHS, *told]).workload.batch
    assert (batch.max_prompt_tokens, batch.max_response_tokens) == (1024, 9000)
    turns = "actor_rollout_ref.rollout.multi_turn.enable=True"
    batch = scene(bases()[f"grpo-{version}"], [*LENGTHS, *told, turns]).workload.batch
    assert (batch.max_prompt_tokens, batch.max_response_tokens) == (7000, 9000)
