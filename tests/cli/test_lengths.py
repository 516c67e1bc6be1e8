"""Lengths and waiting of responses on the command line: ``--mean-response-length``, ``--tool-seconds``."""

import json
from typing import Any

import pytest

from tests.cli.runner import ROOT, run
from tuner.timing.spreads import EIGHT_OF_TEN

pytestmark = pytest.mark.sampled(12)

CONFIG = str(ROOT / "tests/cli/configs/grpo.yaml")
GIVEN = ("--verl-version", "0.9.1", "--gpu", "h100-sxm")
MEANS = ("--mean-prompt-length", "400", "--mean-response-length", "900")
# Static micro-batches of sequences that are longer than what fits.
TOO_LONG = (
    "actor_rollout_ref.actor.use_dynamic_bsz=False",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=32",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=1",
)


def words(*arguments: str) -> str:
    result = run("advise", CONFIG, *GIVEN, "--full", *arguments)
    assert result.code == 0, result.err
    return " ".join(result.out.split())


def report(*arguments: str) -> dict[str, Any]:
    result = run("advise", CONFIG, *GIVEN, "--output-format", "json", *arguments)
    return dict(json.loads(result.out))


def test_what_is_assumed_is_said_and_the_option_named() -> None:
    assert "lengths half of the maxima assumed (512 + 1,536); give --mean-response-length not set" in words()


def test_what_is_given_is_said() -> None:
    said = "lengths mean prompt 400 (--mean-prompt-length), mean response 900 (--mean-response-length)"
    assert f"{said}; longest response 3,072 (1,800 to 3,072, expected of" in words(*MEANS)
    known = words(*MEANS, "--response-p95", "2000", "--response-max", "2500")
    assert (
        f"{said}, 95 % of responses up to 2,000 (--response-p95); longest response 2,500 (--response-max) "
        "not set" in known
    )
    half = words("--mean-response-length", "900")
    assert "mean prompt 512 (assumed), mean response 900 (--mean-response-length); give --mean-prompt" in half


def test_the_engine_holds_more_sequences_of_a_known_length() -> None:
    assert "212 sequences of full length at a time" in words()
    sharper = words(*MEANS, "--response-p95", "2000")
    assert "256 sequences of 2,800 tokens at a time" in sharper
    assert "are preempted" not in sharper


def test_a_note_on_what_is_assumed_goes_where_it_is_known() -> None:
    assumed = "Mean lengths are taken as half of the maxima"
    padded = "actor_rollout_ref.model.use_remove_padding=False"
    assert assumed in words(padded)
    assert assumed not in words(padded, *MEANS)


def test_the_json_has_them_with_the_workload() -> None:
    lengths = report(*MEANS, "--response-p95", "2000")["workload"]["batch"]["lengths"]
    others = {
        "response_max": None,
        "kept_groups": None,
        "tool_seconds": None,
        "turns": None,
        "tool_tokens": None,
        "images_per_prompt": None,
        "image_pixels": None,
    }
    assert lengths == {"mean_prompt": 400, "mean_response": 900, "response_p95": 2000, **others}


def test_generation_is_as_much_longer_as_the_last_response_waits_for_tools() -> None:
    """And may be nearly as long as without: in eight cases of ten what waits ends no later than others."""
    plain, waiting = (
        next(phase for phase in report(*MEANS, *options)["time"] if phase["phase"] == "rollout")
        for options in ((), ("--tool-seconds", "30.5"))
    )
    assert waiting["seconds"] == pytest.approx(plain["seconds"] + 30.5)
    assert waiting["high_s"] < plain["high_s"] + 30.5 * 1.3
    assert waiting["low_s"] < waiting["seconds"] - EIGHT_OF_TEN * 30.5
    assert "; the last response waits 30.5 s for tools (--tool-seconds) not set" in words(
        *MEANS, "--tool-seconds", "30.5"
    )


def test_what_fits_is_held_against_what_is_known() -> None:
    open_question = report(*TOO_LONG)
    limit = open_question["mean_tokens"]
    assert (open_question["verdict"], open_question["memory_condition"]) == ("may_not_fit", "mean_length")
    assert 400 + 900 < limit < 1024 + 2900
    short = report(*MEANS, *TOO_LONG)
    assert (short["verdict"], short["mean_tokens"]) == ("may_not_fit", limit)
    may = f"sequences may average {limit:,} of at most 4,096 tokens"
    assert f"{may}, and average 1,300, so it fits while they stay so" in words(*MEANS, *TOO_LONG)
    long = ("--mean-prompt-length", "1024", "--mean-response-length", "2900", *TOO_LONG)
    assert report(*long)["verdict"] == "does_not_fit"
    assert f"{may}, and average 3,924." in words(*long)


@pytest.mark.parametrize("release", ["0.5.0", "0.9.1"])
def test_no_mean_makes_a_job_fit_whose_sequences_are_padded(release: str) -> None:
    """To the maxima up to 0.7.1, then to the longest of a micro-batch. Packed, it goes by its mean."""
    options = ("--verl-version", release, *MEANS, *TOO_LONG)
    padded = report(*options, "actor_rollout_ref.model.use_remove_padding=False")
    assert (padded["verdict"], padded["mean_tokens"]) == ("does_not_fit", None)
    packed = report(*options, "actor_rollout_ref.model.use_remove_padding=True")
    assert (packed["verdict"], packed["memory_condition"]) == ("may_not_fit", "mean_length")


def test_a_block_is_written_with_the_lengths_that_are_known() -> None:
    """What is proposed is read back from its overrides, lengths and all."""
    together = report(*MEANS, "--least-gain", "0.01")["combination"]
    assert together["overrides"]
    again = report(*MEANS, *together["overrides"])
    assert sum(phase["seconds"] for phase in again["time"]) == pytest.approx(together["seconds"], rel=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--mean-prompt-length", "1025"), "--mean-prompt-length 1,025: prompts have at most 1,024 tokens"),
        (("--mean-response-length", "4000"), "--mean-response-length 4,000: responses have at most 3,072"),
        (("--response-p95", "4000"), "--response-p95 4,000: responses have at most 3,072 tokens"),
        (("--tool-seconds", "nan"), "--tool-seconds nan: expected a number of seconds"),
        ((*MEANS, "--response-p95", "800"), "--response-p95 800 is below --mean-response-length 900"),
        (("--mean-response-length", "9", "--response-p95", "3000"), "contradict each other"),
    ],
)
def test_lengths_that_cannot_be_are_one_message(options: tuple[str, ...], message: str) -> None:
    result = run("advise", CONFIG, *GIVEN, *options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.count("\n") == 1


def test_check_goes_by_them_too() -> None:
    """Of short responses the layers are a smaller part of a step: what fuses them is priced otherwise."""

    def priced(*lengths: str) -> str:
        said = run("check", CONFIG, *GIVEN, *lengths, "-f", "concise").out
        (line,) = (line for line in said.splitlines() if "KRN006" in line)
        return line

    assert priced() == priced() != priced("--mean-prompt-length", "100", "--mean-response-length", "100")


def test_means_are_taken_as_logs_print_them() -> None:
    decimals = (
        "--mean-prompt-length",
        "399.6",
        "--mean-response-length",
        "900.4",
        "--response-p95",
        "2000.0",
    )
    lengths = report(*decimals)["workload"]["batch"]["lengths"]
    assert [lengths[name] for name in ("mean_prompt", "mean_response", "response_p95")] == [400, 900, 2000]
    for wrong in ("nan", "inf", "0.2"):
        result = run("advise", CONFIG, *GIVEN, "--mean-response-length", wrong)
        assert result.code == 2
        assert wrong in result.err
        assert "--mean-response-length" in result.err
