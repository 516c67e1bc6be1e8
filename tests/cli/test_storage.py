"""``--storage`` on the command line, and the seconds of a checkpoint."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import ROOT, run

CONFIG = str(ROOT / "tests/cli/configs/grpo.yaml")
CARD = ROOT / "profiles/gpus/h100-sxm.yaml"
VERSION = ("--verl-version", "0.9.1")
GIVEN = (*VERSION, "--gpu", "8xh100-sxm")
SAVED = "trainer.save_freq=20"


def report(*arguments: str, given: tuple[str, ...] = GIVEN) -> dict[str, Any]:
    result = run("advise", CONFIG, *given, "--output-format", "json", *arguments)
    assert result.code == 0, result.err
    return dict(json.loads(result.out))


def words(*arguments: str) -> str:
    result = run("advise", CONFIG, *GIVEN, *arguments)
    assert result.code == 0, result.err
    return " ".join(result.out.split())


def writing(*arguments: str, given: tuple[str, ...] = GIVEN) -> float:
    parts = report(SAVED, *arguments, given=given)["saving"]["waits"]["parts"]
    return float(next(part["seconds"] for part in parts if part["name"] == "storage"))


def test_a_rate_twice_as_fast_halves_the_writing() -> None:
    assert writing("--storage", "1GB/s") == pytest.approx(2 * writing("--storage", "2GB/s"))
    assert writing("--storage", "16Gb/s") == writing() == writing("--storage", "2GB/s")


def test_a_checkpoint_is_no_part_of_the_step() -> None:
    plain, saved = report(), report(SAVED)
    assert plain["saving"] is None
    assert plain["time"] == saved["time"] and plain["step_time"] == saved["step_time"]
    saving = saved["saving"]
    assert saving["every_steps"] == 20
    assert saving["step_seconds"] == pytest.approx(saving["waits"]["seconds"] / 20)
    assert saving["storage_assumed"] and saving["waits"]["evidence"] == "heuristic"
    assert saving["waits"]["low_s"] < saving["waits"]["seconds"] < saving["waits"]["high_s"]


def test_the_full_answer_tells_it_and_names_the_option() -> None:
    full = words("--full", SAVED)
    assert "Checkpoint: " in full and "at 2 GB/s for each node (assumed; give --storage)." in full
    assert "It comes every 20 steps, " in full
    told = words("--full", SAVED, "--storage", "5GB/s")
    assert "at 5 GB/s for each node." in told and "--storage)" not in told
    assert "Checkpoint: " not in words("--full") + words(SAVED)


def test_a_profile_of_the_gpu_may_say_it(tmp_path: Path) -> None:
    profile = tmp_path / "ours.yaml"
    profile.write_text(CARD.read_text().replace("- h100-sxm\n", "- ours\n", 1) + "storage_gb_per_s: 8\n")
    given = (*VERSION, "--gpu", str(profile))
    assert writing(given=given) == pytest.approx(writing() / 4)
    assert writing("--storage", "1GB/s", given=given) == pytest.approx(2 * writing())


@pytest.mark.parametrize("wrong", ["2", "fast", "0GB/s", "2GB"])
def test_what_is_no_rate_is_refused(wrong: str) -> None:
    result = run("advise", CONFIG, *GIVEN, "--storage", wrong)
    assert result.code == 2
    assert f"{wrong!r} is no rate" in result.err
