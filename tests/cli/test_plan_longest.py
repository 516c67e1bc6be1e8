"""``tuner plan --longest``: how long responses may get on the layouts of a plan."""

import json
from functools import cache
from typing import Any

import jsonschema
import pytest

from tests.cli.runner import run
from tests.cli.test_plan import ACTOR, JOB, SMALL
from tuner.render.schemas import schema

pytestmark = pytest.mark.usefixtures("plans_are_kept")

# Static micro-batches of whole sequences: the longer these, the more memory a pass takes.
STATIC = (
    *(text for text in JOB if "dynamic_bsz" not in text and "max_token_len" not in text),
    f"{ACTOR}.ppo_micro_batch_size_per_gpu=8",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
)
ONE = ("--gpus-per-node", "2", "--longest")
CAP = "data.max_response_length"


@cache
def answer() -> dict[str, Any]:
    result = run("plan", *SMALL, *ONE, "--output-format", "json", "--", *STATIC)
    assert result.code == 0, result.err
    whole: dict[str, Any] = json.loads(result.out)
    return whole


def fits(*overrides: str) -> bool:
    result = run("advise", *SMALL, "--output-format", "json", "--", *STATIC, *overrides)
    return bool(json.loads(result.out)["verdict"] == "fits")


def test_the_longest_response_of_each_layout_fits_and_one_token_more_does_not() -> None:
    layouts = answer()["longest"]
    assert [layout["place"] for layout in layouts][:2] == [None, 1]
    for layout in layouts:
        (line,) = layout["lines"]
        tokens = layout["cap"]["tokens"]
        assert line == f"{CAP}={tokens}"
        assert fits(*layout["overrides"], line)
        assert layout["cap"]["limit"] is None or not fits(*layout["overrides"], f"{CAP}={tokens + 1}")


def test_what_lengthens_a_layout_has_room_for_more_of_it() -> None:
    ways = [(layout, way) for layout in answer()["longest"] for way in layout["lengthened"][:1]]
    assert ways
    for layout, way in ways:
        assert way["cap"]["tokens"] > layout["cap"]["tokens"]
        assert fits(*layout["overrides"], *way["overrides"], f"{CAP}={way['cap']['tokens']}")


def test_the_setting_with_the_most_room_is_among_the_layouts() -> None:
    whole = answer()
    farthest = [layout for layout in whole["longest"] if layout["farthest"]]
    assert len(farthest) == 1
    tokens = farthest[0]["cap"]["tokens"]
    for setting in whole["plan"]["settings"]:
        assert not fits(*setting["overrides"], f"{CAP}={tokens + 1}")


def test_the_words_name_what_binds_and_the_price_of_more() -> None:
    result = run("plan", *SMALL, *ONE, "--", *STATIC)
    words = " ".join(result.out.partition("The longest responses")[2].split())
    own = answer()["longest"][0]
    assert f"The job as it is Carries a cap of up to {own['cap']['tokens']:,} tokens for certain" in words
    assert f"then {own['cap']['limit']['phase']} binds" in words
    way = own["lengthened"][0]
    assert f"Up to {way['cap']['tokens']:,} tokens with {way['overrides'][0]}" in words
    assert f": {way['code']}); " in words and way["name"] not in words
    assert f"at {own['cap']['tokens']:,} tokens step " in words


def test_the_report_is_what_its_schema_says() -> None:
    whole = answer()
    assert whole["longest"] and whole["trade_off"]
    jsonschema.validate(whole, schema("plan"), cls=jsonschema.Draft202012Validator)


def test_nobody_is_told_of_lengths_who_did_not_ask() -> None:
    result = run("plan", *SMALL, "--gpus-per-node", "2", "--", *STATIC)
    assert "The longest responses" not in result.out


def test_where_nothing_fits_the_job_tells_its_own_longest_response() -> None:
    given = ("/dev/null", "--model", "qwen2.5-72b", "--verl-version", "0.9.1", "--gpu", "1xh100-sxm")
    result = run("plan", *given, "--longest", "--", *JOB)
    assert result.code == 1, result.err
    assert "No length of responses is sure to fit." in " ".join(result.out.split())


def test_fine_tuning_has_sequences_and_no_responses() -> None:
    launch = ("torchrun", "--nproc_per_node=1", "-m", "verl.trainer.sft_trainer", "data.train_batch_size=64")
    result = run("plan", "--gpu", "1xh100-sxm", "--longest", *launch, "model.path=Qwen/Qwen2.5-0.5B")
    assert "The longest sequences" in result.out and "--hold data.max_length=" in " ".join(result.out.split())
