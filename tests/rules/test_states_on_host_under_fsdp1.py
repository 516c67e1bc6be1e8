"""Model states that FSDP1 keeps on the card are moved by FSDP2, in one step where either alone is no help."""

from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises

ONE_CARD = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
    "actor_rollout_ref.actor.ppo_mini_batch_size=16",
    "data.train_batch_size=64",
    "data.max_prompt_length=1024",
    "data.max_response_length=1024",
    "trainer.n_gpus_per_node=1",
    "trainer.nnodes=1",
)


def test_a_job_on_one_card_is_told_of_the_policy_that_fsdp2_has() -> None:
    small = consult("/dev/null", list(ONE_CARD), Premises(gpu="h100-sxm", verl_version="0.8.0")).advice
    assert not small.memory.is_expected_to_fit
    block = small.combination
    assert block is not None
    assert {
        "actor_rollout_ref.actor.strategy=fsdp2",
        "actor_rollout_ref.actor.fsdp_config.offload_policy=True",
    } <= set(block.overrides)
    told = next(item for item in small.recommendations if item.finding.code == "MEM011")
    assert any("FSDP1" in note for note in told.finding.notes)
