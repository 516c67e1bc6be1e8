"""The share of the step that a line of the block brings is that of the job without this line."""

import json

from tests.cli.runner import run

ACTOR = "actor_rollout_ref.actor"
#: Its KL term has no weight, and its update needs a fused head, which the reference shares.
JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
    "data.train_batch_size=512",
    "data.max_prompt_length=512",
    "data.max_response_length=1024",
    f"{ACTOR}.ppo_mini_batch_size=256",
    f"{ACTOR}.ppo_micro_batch_size_per_gpu=32",
    f"{ACTOR}.use_kl_loss=True",
    f"{ACTOR}.kl_loss_coef=0",
    "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
    "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=4096",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4",
    "trainer.n_gpus_per_node=8",
)
PREMISES = ("--gpu", "h100-sxm", "--verl-version", "0.7.1")
#: Only its micro-batches are worth a line.
SMALL = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct",
    "data.train_batch_size=512",
    "data.max_prompt_length=512",
    "data.max_response_length=1024",
    f"{ACTOR}.ppo_mini_batch_size=256",
    f"{ACTOR}.ppo_micro_batch_size_per_gpu=1",
    f"{ACTOR}.strategy=fsdp2",
    "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16",
    "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=4096",
    "trainer.n_gpus_per_node=8",
)
NO_REFERENCE = f"{ACTOR}.use_kl_loss=False"


def test_what_takes_another_part_of_the_block_away_has_a_share_of_its_own() -> None:
    report = json.loads(run("advise", "/dev/null", *JOB, *PREMISES, "-f", "json").out)
    block = report["combination"]
    part = next(part for part in block["contributions"] if part["overrides"] == [NO_REFERENCE])
    others = [override for override in block["overrides"] if override != NO_REFERENCE]
    assert any("use_fused_kernels" in override for override in others)
    left = json.loads(run("advise", "/dev/null", *JOB, *others, *PREMISES, "-f", "json").out)
    assert part["without"]["seconds"] == left["step_time"]["seconds"]
    share = 100 * (1 - block["step_time"]["seconds"] / left["step_time"]["seconds"])
    text = run("advise", "/dev/null", *JOB, *PREMISES).out
    assert f"{share:.0f}% of the step" in text
    assert "others rest on it" not in text


ALONE = "Each share is that of its line alone, beside all the others; shares do not add up."


def test_a_share_says_that_it_is_of_one_line_alone_where_there_are_several() -> None:
    report = json.loads(run("advise", "/dev/null", *JOB, *PREMISES, "-f", "json").out)
    block = report["combination"]
    seconds = block["step_time"]["seconds"]
    shares = [
        1 - seconds / part["without"]["seconds"]
        for part in block["contributions"]
        if part["without"] is not None and not part["needed"]
    ]
    assert len(shares) > 1
    for form in ("text", "markdown"):
        assert ALONE in " ".join(run("advise", "/dev/null", *JOB, *PREMISES, "-f", form).out.split())


def test_one_share_that_is_the_whole_gain_says_nothing_of_others() -> None:
    most = ("--least-gain", "0.12")
    report = json.loads(run("advise", "/dev/null", *SMALL, *PREMISES, *most, "-f", "json").out)
    (part,) = report["combination"]["contributions"]
    assert not part["needed"]
    text = run("advise", "/dev/null", *SMALL, *PREMISES, *most).out
    assert "of the step" in text and "shares do not add up" not in text


def test_a_line_that_brings_no_seconds_is_not_told_as_a_share_of_nothing() -> None:
    """A base in bfloat16 leaves the room that the card is to keep, and a step takes as long."""
    job = (
        "algorithm.adv_estimator=grpo",
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
        "actor_rollout_ref.model.lora_rank=16",
        "actor_rollout_ref.model.use_remove_padding=True",
        "data.train_batch_size=8",
        "data.max_prompt_length=1024",
        "data.max_response_length=1024",
        f"{ACTOR}.ppo_mini_batch_size=8",
        f"{ACTOR}.ppo_micro_batch_size_per_gpu=1",
        f"{ACTOR}.fsdp_config.param_offload=True",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.n=4",
        "actor_rollout_ref.rollout.load_format=safetensors",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
        "actor_rollout_ref.rollout.gpu_memory_utilization=0.5",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
        "trainer.n_gpus_per_node=1",
    )
    words = ("--gpu", "h100-sxm", "--verl-version", "0.6.1", "--headroom", "0.3")
    text = " ".join(run("advise", "/dev/null", *job, *words).out.split())
    assert "leaves room MEM012 model_dtype (same numerics)" in text
    assert " 0% of the step" not in text
