"""Decisions that stand instead of the block: whether they go with each other is said."""

import json
import re

from tests.cli.runner import run

ACTOR, CRITIC = "actor_rollout_ref.actor", "critic"
JOB = (
    "algorithm.adv_estimator=gae",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B",
    "critic.model.path=Qwen/Qwen2.5-0.5B",
    "data.train_batch_size=1024",
    "data.max_prompt_length=512",
    "data.max_response_length=512",
    "actor_rollout_ref.model.use_remove_padding=True",
    "critic.model.use_remove_padding=True",
    "critic.model.enable_gradient_checkpointing=False",
    f"{ACTOR}.use_dynamic_bsz=True",
    "critic.forward_max_token_len_per_gpu=32768",
    f"{ACTOR}.ppo_mini_batch_size=256",
    f"{ACTOR}.ppo_max_token_len_per_gpu=4096",
    f"{CRITIC}.ppo_max_token_len_per_gpu=4096",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=16384",
    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu=16384",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.4",
    "actor_rollout_ref.rollout.enforce_eager=False",  # its steps would be most of the job without graphs
    "actor_rollout_ref.rollout.free_cache_engine=False",
    "trainer.n_gpus_per_node=8",
)
PREMISES = ("--gpu", "h100-sxm", "--verl-version", "0.3.0.post1")
BOTH = (f"{ACTOR}.ppo_max_token_len_per_gpu=32768", f"{CRITIC}.ppo_max_token_len_per_gpu=32768")
STATIC = (
    f"{ACTOR}.use_dynamic_bsz=False",
    f"{ACTOR}.ppo_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=16",
    "critic.ppo_micro_batch_size_per_gpu=32",
    "critic.forward_micro_batch_size_per_gpu=32",
)


def words(*overrides: str) -> str:
    result = run("advise", "/dev/null", *JOB, *PREMISES, *overrides)
    assert result.code == 0, result.err
    return " ".join(result.out.split())


def test_decisions_that_go_together_are_priced_together() -> None:
    text = words()
    assert all(override in text for override in BOTH)
    said = re.search(
        r"BAT002, BAT008 go together, instead of the block: "
        r"step ([\d.]+) → ([\d.]+) s, worst phase ([\d.]+) GiB\.",
        text,
    )
    assert said is not None
    both = json.loads(run("advise", "/dev/null", *JOB, *BOTH, *PREMISES, "-f", "json").out)
    assert float(said[2]) == round(both["step_time"]["seconds"], 1)
    assert f"{said[3]} GiB of 79.1 at the peak" in words(*BOTH)


def test_one_decision_is_not_compared() -> None:
    assert "go together" not in words(BOTH[1])


def test_a_fixed_number_of_sequences_is_nothing_beside_a_budget_of_tokens() -> None:
    text = words(*STATIC)
    assert "BAT001" in text
    assert "BAT004" in text
    assert "go together" not in text
