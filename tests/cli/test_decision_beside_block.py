"""A decision that goes with a part of the block alone is told with what of the block it leaves."""

import json
import re

from tests.cli.runner import run

LENGTH = 2328
JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen3-4B",
    "actor_rollout_ref.model.use_remove_padding=True",
    "data.train_batch_size=256",
    "data.max_prompt_length=768",
    "data.max_response_length=1560",
    "actor_rollout_ref.actor.ppo_mini_batch_size=64",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.actor.use_kl_loss=True",
    f"actor_rollout_ref.actor.ppo_max_token_len_per_gpu={LENGTH}",
    f"actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu={LENGTH}",
    f"actor_rollout_ref.ref.log_prob_max_token_len_per_gpu={LENGTH}",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.n=16",
    "actor_rollout_ref.rollout.max_num_batched_tokens=8192",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.8",
    "trainer.n_gpus_per_node=8",
)
PREMISES = ("--gpu", "h100-sxm", "--verl-version", "0.5.0")


def test_the_seconds_are_those_with_what_is_left_of_the_block() -> None:
    told, _, decided = " ".join(run("advise", "/dev/null", *JOB, *PREMISES).out.split()).partition("BAT002")
    block = [word for word in told.split() if word.startswith("actor_rollout_ref.") and "=" in word]
    said = re.search(r"With the block but for MEM003: step [\d.]+ → ([\d.]+) s\. (\S+=\d+)", decided)
    assert said is not None
    others = ("gradient_checkpointing", "use_liger")  # the second needs a package
    job = [*(line for line in block if not any(other in line for other in others)), said[2]]
    assert len(job) == 3
    other = json.loads(run("advise", "/dev/null", *JOB, *job, *PREMISES, "-f", "json").out)
    assert float(said[1]) == round(other["step_time"]["seconds"])
