"""A key of fine-tuning that is added to a launch of reinforcement learning does nothing, and that is told."""

import pytest

from tests.cli.runner import run

KEY = "model.fsdp_config.model_dtype"
PPO = (
    "-m verl.trainer.main_ppo algorithm.adv_estimator=grpo trainer.n_gpus_per_node=8 "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.rollout.name=vllm "
    "actor_rollout_ref.actor.use_dynamic_bsz=True"
)
FINE_TUNING = (
    "-m verl.trainer.fsdp_sft_trainer model.partial_pretrain=Qwen/Qwen2.5-7B-Instruct "
    "data.train_batch_size=64 data.micro_batch_size_per_gpu=4"
)


@pytest.mark.parametrize(
    ("launch", "told"),
    [
        (f"{PPO} +{KEY}=bf16", True),
        (f"{PPO} +actor_rollout_ref.actor.fsdp_config.model_dtype=bf16", False),
        (f"{FINE_TUNING} {KEY}=bf16", False),
    ],
)
def test_a_key_of_fine_tuning_is_dead_elsewhere(launch: str, told: bool) -> None:
    result = run("check", "python3", *launch.split(), "--verl-version", "0.4.1", "--gpu", "h100-sxm")

    assert (f"{KEY}=bf16 does nothing" in " ".join(result.out.split())) is told
