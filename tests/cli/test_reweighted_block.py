"""A block in which tokens weigh otherwise is told with its lines, where nothing else does nearly as well."""

from tests.cli.runner import run

JOB = (
    "algorithm.adv_estimator=grpo",
    "data.train_batch_size=512",
    "data.max_prompt_length=4096",
    "data.max_response_length=4096",
    "actor_rollout_ref.actor.ppo_mini_batch_size=128",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.n=5",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.6",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "trainer.n_gpus_per_node=2",
    "trainer.nnodes=1",
)
TEXT = "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct"
IMAGES = (
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-VL-7B-Instruct",
    "actor_rollout_ref.rollout.enable_chunked_prefill=False",
    "data.image_key=images",
)
SMALLER = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1"


def advised(*words: str) -> str:
    given = ("--gpu", "h100-sxm", "--verl-version", "0.6.1")
    return " ".join(run("advise", "/dev/null", *given, *JOB, *words).out.split())


def test_it_stands_beside_a_block_that_makes_the_step_much_longer() -> None:
    """States that never come to the card fit as well, at twice the seconds."""
    pasted, _, decided = advised(*IMAGES).partition("Yours to decide")
    assert "actor_rollout_ref.actor.fsdp_config.offload_policy=True" in pasted
    assert SMALLER not in pasted
    told = decided.partition(SMALLER)[0]
    assert "With --allow reweighted: FITS with" in told
    assert "instead of the block" in told
    assert "numerics: weights tokens differently" in told
    assert SMALLER in decided


def test_it_stands_where_nothing_else_makes_the_job_fit() -> None:
    before, _, decided = advised(TEXT).partition("Yours to decide")
    assert "Nothing to paste that leaves the loss as it is." in before
    assert "With --allow reweighted: FITS with" in decided
    assert SMALLER in decided


def test_who_allows_it_has_it_in_the_block() -> None:
    text = advised(*IMAGES, "--allow", "reweighted")
    assert SMALLER in text.partition("What matters most")[0]
    assert "With --allow reweighted" not in text
