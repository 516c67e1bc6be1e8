"""A micro-batch is made no smaller than it lowers the peak, where no size of it fits."""

import json
from typing import Any

from tests.cli.runner import run

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
JOB = f"""algorithm.adv_estimator=grpo data.train_batch_size=60 data.max_prompt_length=2048
data.max_response_length=256 actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct
actor_rollout_ref.model.use_remove_padding=True {ACTOR}.use_kl_loss=True {ACTOR}.ppo_mini_batch_size=60
{ACTOR}.ppo_micro_batch_size_per_gpu=6 {ACTOR}.fsdp_config.param_offload=True
{ACTOR}.fsdp_config.optimizer_offload=True {ROLLOUT}.name=vllm {ROLLOUT}.n=2
{ROLLOUT}.gpu_memory_utilization=0.5 {ROLLOUT}.log_prob_micro_batch_size_per_gpu=6
actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=6 trainer.n_gpus_per_node=2"""


def update_peak(*overrides: str) -> tuple[int, list[str]]:
    """The peak of the update, and the sizes that a smaller micro-batch is proposed with."""
    words = (*JOB.split(), *overrides, "--gpu", "h100-sxm", "--verl-version", "0.4.1", "-f", "json")
    answer: dict[str, Any] = json.loads(run("advise", "/dev/null", *words).out)
    (peak,) = (one["peak_bytes"] for one in answer["memory"]["phases"] if one["phase"] == "update_actor")
    said = [one["overrides"] for one in answer["findings"] if one["code"] == "BAT005"]
    return peak, [line for lines in said for line in lines if "ppo_micro_batch_size" in line]


def test_the_largest_with_the_lowest_peak_is_proposed() -> None:
    """The optimizer's step peaks then, which no micro-batch changes."""
    _peak, (line,) = update_peak()
    size = int(line.partition("=")[2])
    key = f"{ACTOR}.ppo_micro_batch_size_per_gpu"
    assert size > 1
    lowest, _lines = update_peak(f"{key}=1")
    assert update_peak(f"{key}={size}")[0] == lowest < update_peak(f"{key}={2 * size}")[0]
