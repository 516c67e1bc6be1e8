"""``--failed-allocation``: an out-of-memory line is explained before anything else."""

import json
from typing import Any

import pytest

from tests.cli.runner import RELEASE, run

GRPO = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=65536",
    "data.max_prompt_length=1024",
    "data.max_response_length=15360",
    "actor_rollout_ref.rollout.n=8",
)
LINE = (
    "CUDA out of memory. Tried to allocate 18.54 GiB. GPU 0 has a total capacity of 79.11 GiB of which "
    "10.85 GiB is free. Of the allocated memory 50.49 GiB is allocated by PyTorch, and 9.77 GiB is reserved "
    "by PyTorch but unallocated."
)


def advise(size: str, *options: str) -> str:
    result = run(
        "advise",
        *RELEASE,
        "/dev/null",
        "--gpu",
        "h100-sxm",
        "--failed-allocation",
        size,
        *options,
        "--",
        *GRPO,
    )
    assert result.code == 0, result.err
    return result.out


def test_the_explanation_comes_first() -> None:
    """65,457 tokens are within the budget's 65,536; twice as many in bfloat16's place would not be."""
    lines = advise(LINE).splitlines()
    assert lines[0].startswith("Failed allocation of 18.54 GiB: most likely logits (old_log_prob")
    formula = next(line.strip() for line in lines if line.strip().startswith("= "))
    assert formula == "= 65,457 tokens x 152,064 vocabulary entries x 2 bytes"
    text = " ".join(" ".join(lines[:14]).split())
    assert "10.8 GiB were free and 9.8 GiB reserved but unused: enough together, but fragmented." in text
    assert "a full micro-batch has 65,536" in text
    assert "Rules that make it smaller: token-budget-too-large" in text


def test_advice_that_leaves_the_tensor_as_it_is_is_not_named() -> None:
    """On a smaller card the advice itself makes the logits smaller, and other advice does not."""
    arguments = ("advise", "/dev/null", "--gpu", "a100-sxm-40g", "--failed-allocation", "18.54 GiB")
    report = json.loads(run(*arguments, "--output-format", "json", "--", *GRPO).out)
    named = set(report["failed_allocation"]["candidates"][0]["advice"])
    listed = {item["name"] for item in report["findings"]}
    assert named and named < listed


def test_a_job_that_is_said_to_fit_gets_the_rules_for_a_smaller_card() -> None:
    report = json.loads(advise("18.54 GiB", "--output-format", "json"))
    assert report["verdict"] == "fits"
    named = report["failed_allocation"]["candidates"][0]["advice"]
    assert named == ["token-budget-too-large"]


def test_json_holds_every_candidate_and_none_unasked() -> None:
    report = json.loads(advise(LINE, "--output-format", "json"))["failed_allocation"]
    assert report["text"] == "18.54 GiB"
    assert report["low_bytes"] < 18.54 * 2**30 < report["high_bytes"]
    assert report["free_bytes"] == round(10.85 * 2**30)
    ranks = ["exact", "likely", "possible", "overfull", "too_long"]
    confidences = [ranks.index(candidate["confidence"]) for candidate in report["candidates"]]
    assert confidences == sorted(confidences) and len(confidences) > 1
    result = run("advise", *RELEASE, "/dev/null", "--output-format", "json", "--", *GRPO)
    assert json.loads(result.out)["failed_allocation"] is None


def standing(size: str, *options: str) -> tuple[dict[str, Any], str]:
    """What the model says of an error, and the text of the section."""
    text = " ".join(advise(size, *options).partition("\n\n")[0].split())
    explained = json.loads(advise(size, "--output-format", "json", *options))["failed_allocation"]
    return dict(explained["standing"]), text


def test_an_error_in_a_phase_that_is_over_the_card_agrees_with_the_verdict() -> None:
    said, text = standing("18.54 GiB", "--gpu", "a100-sxm-40g")
    assert (said["agreement"], said["phase"], said["causes"]) == ("agrees", "update_actor", [])
    assert said["peak_bytes"] > said["capacity_bytes"]
    assert (
        "The model says DOES NOT FIT: update_actor peaks at " in text
        and "GiB of 39.4 GiB; the error agrees." in text
    )


def test_an_error_of_a_job_that_fits_is_explained() -> None:
    said, text = standing(LINE)
    assert (said["agreement"], said["causes"]) == ("contradicts", ["fragmented", "others"])
    assert said["peak_bytes"] <= said["capacity_bytes"]
    assert "The model says FITS: update_actor peaks at" in text
    assert "What could explain the error: memory in pieces" in text
    other, _ = standing("60.00 GiB")
    assert other["causes"] == ["other_settings", "others"]


def test_a_vocabulary_alone_is_enough() -> None:
    result = run("estimate-memory", "--vocab", "151936", "--failed-allocation", "18.54 GiB")
    assert result.code == 0
    text = " ".join(result.out.split())
    assert "= 65,512 tokens x 151,936 vocabulary entries x 2 bytes" in text
    assert "= 32,756 tokens x 151,936 vocabulary entries x 4 bytes" in text
    assert text.index("Failed allocation") < text.index("Output head")


def test_tokens_that_are_given_decide_between_the_dtypes() -> None:
    arguments = ("estimate-memory", "--vocab", "151936", "--failed-allocation", "18.54 GiB", "-f", "json")
    first = json.loads(run(*arguments, "--tokens", "40k").out)["failed_allocation"]["candidates"][0]
    assert (first["name"], first["confidence"], first["tokens"]) == ("logits_float32", "likely", 32756)
    assert json.loads(run(*arguments[:3], "-f", "json").out)["failed_allocation"] is None


def test_a_models_weights_are_recognised() -> None:
    """152,064 x 3,584 x 4 bytes."""
    result = run("estimate-memory", "--model", "qwen2.5-7b", "--failed-allocation", "2.03 GiB")
    assert "152,064 vocabulary entries x 3,584 hidden entries x 4 bytes" in result.out


@pytest.mark.parametrize("command", [("advise", "/dev/null"), ("estimate-memory", "--vocab", "152k")])
@pytest.mark.parametrize("text", ["18.54", "18.54 GB", "much"])
def test_a_text_without_a_size_ends_in_one_message(command: tuple[str, ...], text: str) -> None:
    result = run(*command, "--failed-allocation", text)
    assert (result.code, result.out) == (2, "")
    assert "no failed allocation" in result.err and "18.54 GiB" in result.err
    assert len(result.err.splitlines()) == 1
