"""A share of Megatron's optimizer on the host is proposed where nothing else makes a job fit."""

import json
from typing import Any

from tests.cli.runner import run

OPTIONS = "actor_rollout_ref.actor.optim.override_optimizer_config"
JOB = (
    "model_engine=megatron",
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen3-30B-A3B-Base",
    "data.train_batch_size=32",
    "data.max_prompt_length=2048",
    "data.max_response_length=8192",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.n=16",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=4",
    "actor_rollout_ref.actor.ppo_mini_batch_size=32",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=10240",
    "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2",
    "actor_rollout_ref.actor.megatron.expert_model_parallel_size=4",
    "actor_rollout_ref.actor.megatron.expert_tensor_parallel_size=1",
)


def block(*further: str) -> tuple[dict[str, Any], list[str]]:
    """The answer on eight cards, and what it has to paste."""
    words = ("--gpu", "8xh100-sxm", "--verl-version", "0.8.0", "-f", "json")
    answer = run("advise", "/dev/null", *words, "--", *JOB, *further)
    assert answer.code == 0, answer.err
    report: dict[str, Any] = json.loads(answer.out)
    return report, report["combination"]["overrides"]


def test_the_host_keeps_what_is_left_and_the_job_fits() -> None:
    """With a share of it on the host, a precision-aware optimizer keeps whole main weights."""
    report, pasted = block(f"+{OPTIONS}.use_precision_aware_optimizer=True")
    assert (report["verdict"], report["combination"]["verdict"]) == ("will_not_start", "fits")
    assert f"+{OPTIONS}.optimizer_cpu_offload=True" in pasted
    assert f"+{OPTIONS}.optimizer_offload_fraction=1.0" in pasted


def test_a_key_that_the_launch_has_is_set_and_not_added() -> None:
    there = (f"+{OPTIONS}.optimizer_cpu_offload=False", f"+{OPTIONS}.optimizer_offload_fraction=0.0")
    _report, pasted = block(f"+{OPTIONS}.use_precision_aware_optimizer=True", *there)
    assert f"{OPTIONS}.optimizer_cpu_offload=True" in pasted
