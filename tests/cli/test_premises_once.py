"""What was taken to be so is told once, however many roles it was taken for."""

from tests.cli.runner import run

NAMED = "/checkpoints/maze-output-lora-qwen-2.5-0.5b-base"
JOB = (
    "algorithm.adv_estimator=gae",
    f"actor_rollout_ref.model.path={NAMED}",
    f"critic.model.path={NAMED}",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "critic.use_dynamic_bsz=True",
    "trainer.n_gpus_per_node=8",
)


def test_a_model_of_actor_and_critic_is_taken_once() -> None:
    result = run("advise", "/dev/null", *JOB, "--gpu", "h100-sxm", "--verl-version", "0.7.1")
    assert result.code == 0, result.err
    text = " ".join(result.out.split())
    assert text.count("Qwen2.5-0.5B is taken, whose name stands in maze-output-lora-qwen-2.5-0.5b-base") == 1
