"""CUDA graphs of the vLLM that verl 0.3 carries: the cache stays on the card with them, and is priced so."""

import json
from typing import Any

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


def test_both_keys_are_proposed_where_the_cache_that_stays_fits() -> None:
    answer = report(f"{ROLLOUT}.gpu_memory_utilization=0.3")
    finding = next(item for item in answer["findings"] if item["code"] == "ROL011")
    assert sorted(finding["overrides"]) == sorted(GRAPHS)
    assert finding["price"]["seconds_after"] < finding["price"]["seconds_before"] * 0.95
    held = report(f"{ROLLOUT}.gpu_memory_utilization=0.3", *GRAPHS)["rollout"]
    assert held["asleep_bytes"] >= held["kv_bytes"] > 0  # beside what the graphs keep


def test_a_cache_that_cannot_stay_is_made_smaller() -> None:
    long = ("data.max_prompt_length=1024", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16")
    full = (*long, f"{ROLLOUT}.gpu_memory_utilization=0.6")
    answer = report(*full)
    finding = next(item for item in answer["findings"] if item["code"] == "ROL011")
    fraction = f"{ROLLOUT}.gpu_memory_utilization="
    smaller = next(text for text in finding["overrides"] if text.startswith(fraction))
    assert sorted(finding["overrides"]) == sorted((*GRAPHS, smaller))
    assert 0.1 < float(smaller.removeprefix(fraction)) < 0.6
    assert "stays on the card" in finding["message"]
    assert report(*full, *GRAPHS)["verdict"] != "fits"
    followed = report(*full, *finding["overrides"])
    assert followed["verdict"] == "fits"
    assert followed["step_time"]["seconds"] < answer["step_time"]["seconds"] * 0.95
