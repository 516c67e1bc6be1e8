"""The critic's own mini-batches: counted in sequences before verl 0.4, in prompts since, and priced."""

import json
from typing import Any

import pytest

from tests.cli.runner import run

JOB = (
    "algorithm.adv_estimator=gae",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B",
    "critic.model.path=Qwen/Qwen2.5-7B",
    "data.train_batch_size=128",
    "data.max_prompt_length=1024",
    "data.max_response_length=3072",
    "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.actor.ppo_mini_batch_size=64",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.n=16",
    "trainer.n_gpus_per_node=8",
)


def report(version: str, *overrides: str) -> dict[str, Any]:
    result = run(
        "advise", "/dev/null", *JOB, *overrides, "--gpu", "h100-sxm", "--verl-version", version, "-f", "json"
    )
    assert result.code == 0, result.err
    answer: dict[str, Any] = json.loads(result.out)
    return answer


def update_critic(answer: dict[str, Any]) -> dict[str, Any]:
    return next(row for row in answer["batches"] if row["phase"] == "update_critic")


@pytest.mark.parametrize(
    ("version", "overrides", "sequences", "steps"),
    [
        ("0.3.0.post1", (), 64, 32),
        ("0.3.0.post1", ("critic.ppo_mini_batch_size=32",), 32, 64),
        ("0.4.0", (), 1024, 2),
        ("0.4.0", ("critic.ppo_mini_batch_size=32",), 512, 4),
        ("0.9.1", ("critic.ppo_mini_batch_size=32", "critic.ppo_epochs=2"), 512, 8),
    ],
)
def test_sequences_and_steps_are_those_of_the_release(
    version: str, overrides: tuple[str, ...], sequences: int, steps: int
) -> None:
    row = update_critic(report(version, *overrides))
    assert (row["sequences"], row["optimizer_steps"]) == (sequences, steps)


def test_more_updates_take_longer_and_are_not_left_out() -> None:
    as_often, oftener = report("0.4.0"), report("0.4.0", "critic.ppo_mini_batch_size=4")
    phases = [
        next(phase["seconds"] for phase in answer["time"] if phase["phase"] == "update_critic")
        for answer in (as_often, oftener)
    ]
    assert phases[1] > phases[0] + 1
    assert not any("critic" in item["name"] for item in oftener["left_out"])


PADDED = ("critic.model.use_remove_padding=False", "critic.use_dynamic_bsz=True")


def test_padding_of_a_small_mini_batch_is_counted_as_it_is() -> None:
    """One sequence of a rank cannot fill a budget with padding."""
    few = report("0.3.0.post1", *PADDED, "critic.ppo_mini_batch_size=8")
    many = report("0.3.0.post1", *PADDED, "critic.ppo_mini_batch_size=2048", "data.train_batch_size=2048")
    assert update_critic(few)["rank_sequences"] == 1
    peaks = [
        next(phase["peak_bytes"] for phase in answer["memory"]["phases"] if phase["phase"] == "update_critic")
        for answer in (few, many)
    ]
    assert peaks[0] < peaks[1]


def test_a_doubt_beside_a_peak_within_the_card_reads_as_one() -> None:
    result = run(
        *("advise", "/dev/null", *JOB, *PADDED, "actor_rollout_ref.rollout.gpu_memory_utilization=0.4"),
        *("critic.ppo_mini_batch_size=8", "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True"),
        *("--gpu", "h100-sxm", "--verl-version", "0.3.0.post1"),
    )
    first = " ".join(result.out.split())
    assert first.startswith("MAY NOT FIT as counted it does, with ")
    assert "; but a token budget counts no padding" in first


def test_packing_is_told_of_the_update_that_takes_most() -> None:
    padded = ("actor_rollout_ref.model.use_remove_padding=False", "actor_rollout_ref.rollout.n=1")
    answer = report("0.4.1", *padded, "critic.model.use_remove_padding=False")
    peaks = {phase["phase"]: phase["peak_bytes"] for phase in answer["memory"]["phases"]}
    finding = next(item for item in answer["findings"] if item["code"] == "SEQ001")
    assert peaks["update_actor"] > peaks["update_critic"]
    assert finding["message"].startswith("update_actor computes every sequence")
