"""Checkpoints that come so often that they are a good part of the step stand in the short answer."""

from tests.cli.runner import run

JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
    "data.train_batch_size=64",
    "data.max_prompt_length=1024",
    "data.max_response_length=1024",
    "actor_rollout_ref.actor.ppo_mini_batch_size=64",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.rollout.name=vllm",
    "trainer.n_gpus_per_node=8",
)


def short(*overrides: str) -> str:
    result = run("advise", "/dev/null", *JOB, *overrides, "--gpu", "h100-sxm", "--verl-version", "0.7.1")
    assert result.code == 0, result.err
    return " ".join(result.out.split())


def test_what_comes_after_every_step_is_told_with_its_bytes_and_seconds() -> None:
    said = short("trainer.save_freq=1")
    assert "Checkpoints: " in said
    assert "GiB every step, " in said
    assert "each stays on the disk unless a limit" in said


def test_few_steps_between_them_are_named() -> None:
    assert " GiB every 2 steps, " in short("trainer.save_freq=2")


def test_seldom_ones_are_not_told() -> None:
    assert "Checkpoints: " not in short("trainer.save_freq=1000")
    assert "Checkpoints: " not in short("trainer.save_freq=-1")


def test_where_a_limit_is_set_nothing_is_said_of_the_disk() -> None:
    said = short("trainer.save_freq=1", "trainer.max_actor_ckpt_to_keep=2")
    assert "Checkpoints: " in said and "stays on the disk" not in said
    assert "stays on the disk" in short("trainer.save_freq=1", "trainer.max_critic_ckpt_to_keep=2")
