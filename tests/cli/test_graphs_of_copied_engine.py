"""CUDA graphs of the vLLM that verl 0.3 carries: never proposed, and priced where a launch has them."""

import json
from typing import Any

import pytest

from tests.cli.runner import run

ROLLOUT = "actor_rollout_ref.rollout"
JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B",
    "data.train_batch_size=512",
    "data.max_prompt_length=512",
    "data.max_response_length=1024",
    "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.actor.ppo_mini_batch_size=256",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
    f"{ROLLOUT}.name=vllm",
    f"{ROLLOUT}.tensor_model_parallel_size=1",
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=16",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=16",
    "trainer.n_gpus_per_node=8",
)
PREMISES = ("--gpu", "h100-sxm", "--verl-version", "0.3.0.post1", "--engine-version", "0.6.3")
GRAPHS = (f"{ROLLOUT}.enforce_eager=False", f"{ROLLOUT}.free_cache_engine=False")


def report(*overrides: str) -> dict[str, Any]:
    result = run("advise", "/dev/null", *JOB, *PREMISES, *overrides, "-f", "json")
    assert result.code == 0, result.err
    answer: dict[str, Any] = json.loads(result.out)
    return answer


@pytest.mark.parametrize("fraction", ["0.3", "0.6"])
def test_no_graphs_are_proposed_over_weights_that_move(fraction: str) -> None:
    listed = report(f"{ROLLOUT}.gpu_memory_utilization={fraction}")["findings"]
    assert "ROL011" not in {item["code"] for item in listed}


def test_graphs_are_proposed_where_the_engine_sleeps_by_itself() -> None:
    premises = ("--gpu", "h100-sxm", "--verl-version", "0.3.0.post1", "--engine-version", "0.8.2")
    result = run(
        "advise", "/dev/null", *JOB, *premises, f"{ROLLOUT}.gpu_memory_utilization=0.3", "-f", "json"
    )
    assert "ROL011" in {item["code"] for item in json.loads(result.out)["findings"]}


def test_a_cache_that_stays_is_counted() -> None:
    held = report(f"{ROLLOUT}.gpu_memory_utilization=0.3", *GRAPHS)["rollout"]
    assert held["asleep_bytes"] >= held["kv_bytes"] > 0  # beside what the graphs keep
