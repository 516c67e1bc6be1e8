"""What is not counted is said in the verdict, in the premises, in JSON and in a line of ``check``."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.runner import ROOT, Result, run

GIVEN = ("--verl-version", "0.9.1", "--gpu", "h100-sxm")
REWARD_MODEL = "reward.reward_model.enable=True"
SKIPPED = "skip.rollout.enable=True"
TEACHER = "distillation.enabled=True"
OPTIMIZER = "actor_rollout_ref.actor.optim.optimizer=AdamW8bit"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    whole = (ROOT / "tests/cli/configs/grpo.yaml").read_text(encoding="utf-8")
    file.write_text(whole.partition("  rollot:")[0], encoding="utf-8")
    return file


FITS = r"FITS [\d.]+ GiB of [\d.]+ at the peak \(\w+\)"


def advise(config: Path, *overrides: str, output_format: str = "text") -> Result:
    return run("advise", str(config), *GIVEN, "--full", "--output-format", output_format, "--", *overrides)


def unwrapped(result: Result) -> str:
    return " ".join(result.out.split())


def test_the_verdict_says_without_what_the_job_fits(config: Path) -> None:
    said = unwrapped(advise(config, REWARD_MODEL))
    assert re.match(rf"{FITS}, without the reward model ", said)
    assert f"left out the reward model ({REWARD_MODEL}, override 1 of the command line)" in said
    both = unwrapped(advise(config, REWARD_MODEL, OPTIMIZER))
    assert re.match(rf"{FITS}, without the reward model and the states of another optimizer ", both)


def test_what_takes_time_alone_stands_behind_the_verdict(config: Path) -> None:
    said = unwrapped(advise(config, "trainer.use_v1=False", SKIPPED))
    assert re.match(rf"{FITS} \w+ is expected ", said)
    assert "The seconds leave out skipped generation." in said
    assert "The seconds leave out the distillation teacher." in unwrapped(advise(config, TEACHER))


def test_a_verdict_without_anything_left_out_is_as_it_was(config: Path) -> None:
    said = unwrapped(advise(config, "trainer.total_epochs=3", "actor_rollout_ref.actor.optim.lr=2e-6"))
    assert re.match(rf"{FITS} \w+ is expected ", said)
    assert "leave out" not in said
    assert "left out" not in said


def test_a_library_that_is_ours_leaves_nothing_out(config: Path) -> None:
    key = "actor_rollout_ref.model.external_lib"
    assert "external library" not in unwrapped(advise(config, f"{key}=tuner.inside_verl"))
    for others in ("their.own", "[tuner.inside_verl,their.own]"):
        assert "an external library changes" in unwrapped(advise(config, f"{key}={others}"))


def test_json_lists_what_is_left_out(config: Path) -> None:
    report = json.loads(advise(config, REWARD_MODEL, output_format="json").out)
    (part,) = report["left_out"]
    assert part["name"] == "the reward model"
    assert (part["key"], part["value"]) == ("reward.reward_model.enable", True)
    assert part["location"] == {"source": "command line", "line": 1, "column": 1}
    assert part["affects"] == "GPU memory"
    assert json.loads(advise(config, output_format="json").out)["left_out"] == []


def test_check_warns_of_memory_that_is_not_counted(config: Path) -> None:
    def severities() -> dict[str, int]:
        listed = json.loads(run("check", str(config), *GIVEN, "--output-format", "json").out)["findings"]
        return {line["severity"]: line["line"] for line in listed if line["code"] == "CFG002"}

    assert severities() == {}
    with config.open("a", encoding="utf-8") as file:
        file.write("reward:\n  reward_model: {enable: true}\nskip:\n  rollout:\n    enable: true\n")
    length = len(config.read_text(encoding="utf-8").splitlines())
    assert severities() == {"warning": length - 3, "advice": length}
