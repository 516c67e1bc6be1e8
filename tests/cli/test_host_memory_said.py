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


def test_what_images_of_an_assumed_size_take_is_no_condition() -> None:
    shown = ["actor_rollout_ref.model.path=Qwen/Qwen2.5-VL-7B-Instruct", "data.image_key=images"]
    sizes = ["data.train_batch_size=512", "actor_rollout_ref.rollout.n=8", "data.max_prompt_length=16384"]
    limit = ["+actor_rollout_ref.rollout.limit_images=15", "trainer.n_gpus_per_node=8"]
    small = ["actor_rollout_ref.actor.fsdp_config.param_offload=False"]
    assumed = words(*shown, *sizes, *limit, *small)
    assert "It starts only where" not in assumed
    sentence = assumed[assumed.index("Images take ") :].partition(" verl 0.7.1")[0]
    assert "more of a node's host memory" in sentence
    assert "if a prompt has 15 of 856,128 pixels, which is assumed; --image-pixels" in sentence
    told = words(*shown, *sizes, *limit, *small, "--image-pixels", "856128")
    assert "It starts only where each node has " in told and "Images take " not in told
