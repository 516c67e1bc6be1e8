"""A norm for clipping gradients under a key that nothing reads is another training, and is told as that."""

import pytest

from tests.cli.runner import run

JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
    "data.train_batch_size=64",
    "actor_rollout_ref.actor.ppo_mini_batch_size=64",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.rollout.name=vllm",
    "trainer.n_gpus_per_node=8",
)
DEAD, READ = "actor_rollout_ref.actor.grad_clip", "actor_rollout_ref.actor.optim.clip_grad"
OTHERWISE = "so that it trains otherwise than asked"


def said(command: str, *overrides: str, version: str = "0.9.1") -> str:
    result = run(command, "/dev/null", *JOB, *overrides, "--gpu", "h100-sxm", "--verl-version", version)
    return " ".join(result.out.split())


@pytest.mark.parametrize("version", ["0.8.0", "0.9.0"])
@pytest.mark.parametrize("norm", ["0.1", "0.5", "2", "1000", "0"])
def test_one_that_is_far_from_what_is_taken(norm: str, version: str) -> None:
    text = said("advise", f"{DEAD}={norm}", version=version)
    assert f"{DEAD}={norm} does nothing: verl {version} reads {READ} instead" in text
    assert f"clips gradients at 1.0, {OTHERWISE}" in text


def test_one_that_is_near_and_one_that_is_not_dead() -> None:
    near = said("advise", f"{DEAD}=0.9")
    assert f"reads {READ} instead" in near
    assert OTHERWISE not in near
    assert OTHERWISE not in said("advise", f"{DEAD}=0.1", f"{READ}=0.1")
    assert OTHERWISE not in said("advise", f"{DEAD}=0.1", version="0.7.1")


def test_what_is_taken_is_what_the_other_key_says() -> None:
    assert f"clips gradients at 0.2, {OTHERWISE}" in said("advise", f"{DEAD}=0.05", f"{READ}=0.2")
    other = "actor_rollout_ref.actor.fsdp_config.use_torch_compile"
    assert OTHERWISE not in said("advise", f"{other.replace('fsdp_config.', '')}=False")
