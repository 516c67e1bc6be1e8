"""Responses of several turns on the command line: ``--turns``, ``--tool-tokens``, and what settings say."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import ROOT, run

pytestmark = pytest.mark.sampled(12)

CONFIG = str(ROOT / "tests/cli/configs/grpo.yaml")
GIVEN = ("--verl-version", "0.9.1", "--gpu", "8xh100-sxm")
TALKS = "actor_rollout_ref.rollout.multi_turn"
FEW = ("data.train_batch_size=8", "actor_rollout_ref.actor.ppo_mini_batch_size=8")
MEANS = ("--mean-prompt-length", "400", "--mean-response-length", "900")


def report(*arguments: str, config: str = CONFIG) -> dict[str, Any]:
    result = run("advise", config, *GIVEN, *MEANS, "--output-format", "json", *arguments)
    assert result.code == 0, result.err
    return dict(json.loads(result.out))


def rollout(*arguments: str) -> float:
    return float(next(one["seconds"] for one in report(*arguments)["time"] if one["phase"] == "rollout"))


def words(*arguments: str) -> str:
    result = run("advise", CONFIG, *GIVEN, "--full", *arguments)
    assert result.code == 0, result.err
    return " ".join(result.out.split())


def test_one_turn_changes_no_seconds() -> None:
    plain, one = report(), report("--turns", "1")
    assert plain["time"] == one["time"]
    assert plain["findings"] == one["findings"]


def test_more_turns_take_longer_and_answers_are_not_generated() -> None:
    """Where all responses run at once: elsewhere those with more turns also let others in between."""
    silent = [rollout(*FEW, "--turns", str(turns), "--tool-tokens", "0") for turns in (2, 4, 8)]
    assert rollout(*FEW) < silent[0] < silent[1] < silent[2]
    assert rollout(*FEW, "--turns", "4", "--tool-tokens", "150") < silent[1]


def test_only_generation_has_turns() -> None:
    before, after = (
        {one["phase"]: one["seconds"] for one in report(*more)["time"]} for more in ((), ("--turns", "4"))
    )
    assert {phase for phase in before if before[phase] != after[phase]} == {"rollout"}


def test_prefix_caching_keeps_what_was_said() -> None:
    key = "actor_rollout_ref.rollout.enable_prefix_caching"
    added = [rollout(f"{key}={on}", "--turns", "8") - rollout(f"{key}={on}") for on in (True, False)]
    assert added[0] < added[1]


def test_what_is_assumed_is_said_and_the_options_named() -> None:
    assert "turns" not in words().split("lengths", 1)[1].split("not set", 1)[0]
    assumed = words(f"{TALKS}.enable=True")
    assert "2 turns a response (assumed), 32 tokens from tools between two (assumed); give --turns" in assumed
    half = words(f"{TALKS}.enable=True", f"{TALKS}.max_assistant_turns=5", f"{TALKS}.max_parallel_calls=3")
    assert "3 turns a response (assumed), 32 tokens from tools between two (assumed)" in half
    said = words(f"{TALKS}.enable=True", "--turns", "3.5", "--tool-tokens", "120")
    assert "3.5 turns a response (--turns), 120 tokens from tools between two (--tool-tokens)" in said
    assert "give --turns" not in said


def test_they_wait_for_tools_between_their_turns() -> None:
    waits, works = rollout(*FEW, "--turns", "4", "--tool-seconds", "40"), rollout(*FEW, "--turns", "4")
    assert 30 < waits - works < 42


def test_a_loop_of_the_user_is_told_by_the_option() -> None:
    own = "actor_rollout_ref.rollout.agent.agent_loop_config_path=loops.yaml"
    assert "an agent loop of the user's" in words(own)
    assert "an agent loop of the user's" not in words(own, "--turns", "3")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--turns", "nan"), "--turns nan: expected a number"),
        (("--turns", "9", f"{TALKS}.max_assistant_turns=5"), "--turns 9: a response has at most 5 turns"),
        (("--turns", "9", f"{TALKS}.max_user_turns=5"), "--turns 9: a response has at most 6 turns"),
    ],
)
def test_turns_that_no_response_can_have_are_refused(options: tuple[str, ...], message: str) -> None:
    result = run("advise", CONFIG, *GIVEN, *options)
    assert result.code == 2
    assert message in " ".join(result.err.split())


def test_a_settings_file_may_say_them(tmp_path: Path) -> None:
    (tmp_path / "tuner.toml").write_text("turns = 4\ntool-tokens = 100\n")
    config = tmp_path / "grpo.yaml"
    config.write_text(Path(CONFIG).read_text())
    conversation = report(config=str(config))["workload"]["batch"]["conversation"]
    assert (conversation["turns"], conversation["tool_tokens"]) == (4, 100)
