"""Numbers of GPUs that the layout of a job does not go with: what is planned there, and what is said."""

import json
from functools import cache
from typing import Any

import pytest

from tests.cli.runner import Result, run
from tests.plan.jobs import ACTOR, ROLLOUT, TYPED

pytestmark = pytest.mark.usefixtures("plans_are_kept")

TENSOR = f"{ROLLOUT}.tensor_model_parallel_size"
GIVEN = ("/dev/null", "--model", "qwen2.5-0.5b", "--verl-version", "0.9.1")


@cache
def planned(gpu: str, *more: str, held: str = "", form: str = "json") -> Result:
    options = (*GIVEN, "--gpu", gpu, *(("--hold", held) if held else ()), "--output-format", form)
    return run("plan", *options, "--", *TYPED, *more)


def best(result: Result) -> dict[int, Any]:
    """The best setting of each number of GPUs."""
    assert result.code == 0, result.err
    rows = json.loads(result.out)["capacity"]
    return {row["plan"]["cluster"]["gpus"]: next(iter(row["plan"]["settings"]), None) for row in rows}


def test_a_typed_number_of_gpus_below_the_engines_parallel_size_is_planned() -> None:
    """The engine's tensor parallel size is an axis, whoever says how many GPUs there are."""
    by_key = best(planned("h100-sxm", "trainer.n_gpus_per_node=1", f"{TENSOR}=4"))
    by_option = best(planned("1xh100-sxm", f"{TENSOR}=4"))
    assert by_key[1]["seconds"] == by_option[1]["seconds"]
    assert f"{TENSOR}=1" in by_key[1]["overrides"]


def test_what_the_largest_number_could_not_do_without_holds_for_smaller_ones() -> None:
    wide, narrow = (best(planned("2xh100-sxm", f"{TENSOR}={size}")) for size in (4, 2))
    assert wide[1]["seconds"] == narrow[1]["seconds"]


def test_a_size_that_is_held_is_not_given_up() -> None:
    result = planned("1xh100-sxm", f"{TENSOR}=2", held=TENSOR)
    assert result.code == 2
    assert "a replica needs 2 GPUs" in result.err and f"--hold keeps {TENSOR}" in " ".join(result.err.split())


def test_a_number_without_room_for_what_is_held_says_so() -> None:
    words = " ".join(planned("2xh100-sxm", f"{TENSOR}=2", held=TENSOR, form="text").out.split())
    assert "1 x h100-sxm cannot be read: " in words and "a replica needs 2 GPUs" in words
    assert not best(planned("2xh100-sxm", f"{TENSOR}=2", held=TENSOR))[1]


def test_from_two_nodes_on_no_part_of_one_is_planned() -> None:
    options = (*GIVEN, "--gpu", "2xh100-sxm", "--output-format", "json")
    rows = {
        nodes: [
            (row["plan"]["cluster"]["gpus"], row["plan"]["cluster"]["nodes"])
            for row in json.loads(run("plan", *options, "--nodes", nodes, "--", *TYPED).out)["capacity"]
        ]
        for nodes in ("2-4", "1-2")
    }
    assert rows == {"2-4": [(4, 2), (8, 4)], "1-2": [(1, 1), (2, 1), (4, 2)]}


def test_what_was_understood_of_the_job_is_told_above_its_plan() -> None:
    """A job of which options and keys alone are known has a critic by verl's own default."""
    keys = ("data.train_batch_size=64", "data.max_prompt_length=512", "data.max_response_length=1536")
    mini = (f"{ACTOR}.ppo_mini_batch_size=64", "critic.model.path=Qwen/Qwen2.5-0.5B")
    text = run("plan", *GIVEN, "--gpu", "1xh100-sxm", "--", *keys, *mini, f"{ROLLOUT}.name=vllm").out
    words = " ".join(text.split("\n\n")[0].split())
    assert "job: 64 prompts x 1 a step, mini-batches of 64, up to 512 + 1,536 tokens; a critic, " in words
    assert "lengths: half of the maxima assumed (256 + 768); give --mean-response-length" in words
    known = ("--mean-response-length", "300")
    typed = " ".join(run("plan", *GIVEN, "--gpu", "1xh100-sxm", *known, "--", *TYPED).out.split())
    assert "mean response 300 (--mean-response-length)" in typed


def test_amounts_have_two_digits_at_least_and_one_row_is_a_sentence() -> None:
    words = run("plan", *GIVEN, "--gpu", "2xh100-sxm", "--price", "h100-sxm=0.01", "--", *TYPED).out
    table = words.partition("Over numbers and cards")[2].partition("\n\n")[0]
    digits = [line.split()[-1].lstrip("0.") for line in table.splitlines() if "%" in line]
    assert digits and all(len(one) == 2 for one in digits)
    for heading in ("Seconds against GPU-hours", "Seconds against the price"):
        section = words.partition(heading)[2].partition("\n\n")[0]
        kept = [line for line in section.splitlines() if line.split()[:1] == ["h100-sxm"]]
        assert len(kept) > 1 or "takes least of both (step" in section
