"""Settings that nobody set are named with the values for which the job would still fit."""

import json

from tests.cli.runner import run

JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
    "actor_rollout_ref.rollout.n=8",
)
SHORT = "max_response_length"


def unset(*overrides: str) -> str:
    """The row of the text, on one line."""
    text = " ".join(run("advise", "/dev/null", "--gpu", "h100-sxm", "--", *JOB, *overrides).out.split())
    return text.partition("not set: ")[2].partition(" (defaults)")[0]


def fitting(*overrides: str) -> dict[str, dict[str, float | None]]:
    arguments = ("advise", "/dev/null", "--gpu", "h100-sxm", "--output-format", "json", "--", *JOB)
    found: dict[str, dict[str, float | None]] = json.loads(run(*arguments, *overrides).out)["premises"][
        "fitting_values"
    ]
    return found


def test_a_length_that_decides_has_its_limit() -> None:
    limit = fitting()[f"data.{SHORT}"]["high"]
    assert limit is not None and limit > 512
    assert f"{SHORT}=512 (fits up to {int(limit):,})" in unset()
    whole = run(
        "advise", "/dev/null", "--gpu", "h100-sxm", "-f", "json", "--", *JOB, f"data.{SHORT}={int(limit)}"
    )
    assert json.loads(whole.out)["memory_verdict"] == "fits"
    assert SHORT not in unset(f"data.{SHORT}={int(limit)}")


def test_a_setting_that_makes_no_difference_has_no_range() -> None:
    row = unset("data.max_prompt_length=256", f"data.{SHORT}=256")
    assert "param_offload=False, optimizer_offload=False" in row


def test_a_switch_that_decides_says_so() -> None:
    lengths = ("data.max_prompt_length=1024", f"data.{SHORT}=3072")
    assert "enable_gradient_checkpointing=True (does not fit otherwise)" in unset(*lengths)


def test_a_share_has_two_ends() -> None:
    row = unset("data.max_prompt_length=256", f"data.{SHORT}=256")
    fraction = fitting()["actor_rollout_ref.rollout.gpu_memory_utilization"]
    assert f"gpu_memory_utilization=0.5 (fits from {fraction['low']:g} to {fraction['high']:g})" in row


def test_nothing_is_said_where_no_value_would_fit() -> None:
    row = unset("trainer.n_gpus_per_node=1", "actor_rollout_ref.rollout.tensor_model_parallel_size=1")
    assert "fits" not in row and f"{SHORT}=512" in row
