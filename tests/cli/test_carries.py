"""How long responses may get stands in the answer: in short where the job may not fit at its longest."""

import json
import re
from typing import Any

import pytest

from tests.cli.runner import run

JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2",
    "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=4096",
    "actor_rollout_ref.rollout.n=8",
    "data.max_response_length=8192",
    "trainer.n_gpus_per_node=8",
)
PREMISES = ("--gpu", "h100-sxm", "--verl-version", "0.7.1")
LONG = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16"
FITS = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1"


def words(*options: str) -> str:
    result = run("advise", "/dev/null", *JOB, *PREMISES, *options)
    assert result.code in (0, 1), result.err
    return " ".join(result.out.split())


def carries(*options: str) -> Any:
    return json.loads(run("advise", "/dev/null", *JOB, *PREMISES, *options, "-f", "json").out)["carries"]


@pytest.mark.parametrize("full", [False, True])
def test_the_mean_is_told_of_a_job_that_may_not_fit_at_its_longest(full: bool) -> None:
    mean = carries(LONG)["mean"]
    assert 1024 <= mean["tokens"] < 8192 and mean["limit"]["phase"] == "update_actor"
    said = (
        f"up to a mean of {mean['tokens']:,} tokens for certain (cap 8,192); then update_actor binds; a step"
    )
    assert f"Carries responses {said} takes " in words(LONG, *["--full"] * full)


def test_a_job_is_judged_at_its_cap_to_fit_for_certain() -> None:
    """As JSON says it, read back from the trainer's own key."""
    reach = carries(LONG)["cap"]
    for more, certain in ((0, True), (1, False)):
        report = json.loads(
            run(
                *("advise", "/dev/null", *JOB, LONG, *PREMISES, "-f", "json"),
                f"data.max_response_length={reach['tokens'] + more}",
            ).out
        )
        assert (report["memory_verdict"] == "fits") is certain


def test_a_job_that_fits_at_its_longest_says_so_in_full() -> None:
    assert "Carries" not in words(FITS) and "at its longest" not in words(FITS)
    full, found = words(FITS, "--full"), carries(FITS)
    assert found["mean"]["tokens"] == 8192 and found["mean"]["limit"] is None
    assert "Fits at its longest: a step with responses of 8,192 tokens takes " in full
    assert f"Carries a cap of up to {found['cap']['tokens']:,} tokens for certain (8,192 now); " in full


def test_a_page_and_markdown_have_it_as_well() -> None:
    cap = carries(FITS)["cap"]["tokens"]
    page = words(FITS, "-f", "html")
    assert f"Carries a cap of up to {cap:,} tokens for certain" in page
    assert "Carries responses up to a mean of" in words(LONG, "-f", "markdown")


def test_a_budget_that_holds_no_longer_sequence_is_in_the_way() -> None:
    dynamic = (
        "actor_rollout_ref.actor.use_dynamic_bsz=True",
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=10000",
    )
    cap = carries(*dynamic)["cap"]
    assert (cap["tokens"], cap["limit"]["code"]) == (10_000 - 512, "CFG121")
    full, reason = words(*dynamic, "--full"), " ".join(cap["limit"]["reason"].split())
    assert f"9,488 tokens for certain (8,192 now); then {reason} (CFG121); " in full


def test_no_lengths_are_told_of_a_job_that_only_validates() -> None:
    assert carries(FITS, "trainer.val_only=True", "trainer.val_before_train=True") is None
    assert not re.search("Carries|at its longest", words(FITS, "trainer.val_only=True", "--full"))
