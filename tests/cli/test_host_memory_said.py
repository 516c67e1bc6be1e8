"""Host memory that few nodes have is said where the short answer begins."""

import pytest

from tests.cli.runner import run

#: 72.7 billion parameters whose weights, gradients and optimizer lie on the host between phases.
OFFLOADED = [
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-72B-Instruct",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=4",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=1",
    "actor_rollout_ref.actor.fsdp_config.param_offload=True",
    "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True",
    "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=8192",
    "trainer.n_gpus_per_node=4",
]


def words(*options: str) -> str:
    result = run("advise", "/dev/null", *OFFLOADED, "--gpu", "h200-sxm", "--verl-version", "0.7.1", *options)
    assert result.code == 0, result.err
    return " ".join(result.out.split())


def test_a_share_of_the_node_that_few_have_is_a_condition() -> None:
    said = words()
    assert said.index("It starts only where each node has ") < said.index("verl 0.7.1, fsdp")
    assert "--host-memory says what yours have." in said


@pytest.mark.parametrize(
    "options", [("--host-memory", "4096"), ("trainer.nnodes=8",)], ids=["told", "shared"]
)
def test_one_that_is_told_or_usual_is_not(options: tuple[str, ...]) -> None:
    assert "It starts only where" not in words(*options)
