"""Every launch of verl's own scripts gives advice or one clear message."""

import re
from typing import Any

import pytest

from tests.cli.runner import Result, run
from tests.corpus import launches

VERDICTS = {
    "WILL NOT START",
    "FITS",
    "FITS IF NOTHING ELSE USES THE GPU",
    "FITS WHILE SHORT",
    "WILL NOT FIT",
    "CANNOT START",
}
NOT_A_TRAINER = {  # entry points that train no policy with rollouts, and the words that name them
    "sft": "supervised fine-tuning",
    "generation": "generation",
    "eval": "evaluation",
}


def _advise(launch: dict[str, Any]) -> Result:
    release = launch["tags"][0].removeprefix("v")
    arguments = ["advise", "/dev/null", "--verl-version", release, "--gpu", "h100-sxm"]
    return run(*arguments, "--", *launch["overrides"])


SLICES = 8  # every eighth launch, a mixture of all scripts: processes share them


@pytest.fixture(scope="module", params=range(SLICES))
def results(request: pytest.FixtureRequest) -> list[tuple[dict[str, Any], Result]]:
    return [(launch, _advise(launch)) for launch in launches()[request.param :: SLICES]]


def test_all_launches_are_tried() -> None:
    assert len(launches()) == 403


def test_each_launch_ends_in_advice_or_one_message(results: list[tuple[dict[str, Any], Result]]) -> None:
    for launch, result in results:
        where = f"{launch['path']} {launch['tags']}: {result.err}"
        if result.code == 0:
            assert re.split("[:,]", result.out)[0] in VERDICTS, where
            assert not result.err, where
        else:
            assert result.code == 2, where
            assert result.err.startswith("error: "), where
            assert result.err.count("\n") == 1, where
            assert not result.out, where


def test_most_launches_are_advised(results: list[tuple[dict[str, Any], Result]]) -> None:
    trainers = [result for launch, result in results if launch["entry"].endswith("main_ppo")]
    assert sum(result.code == 0 for result in trainers) >= 0.8 * len(trainers)


def test_other_entry_points_are_named(results: list[tuple[dict[str, Any], Result]]) -> None:
    for launch, result in results:
        module = launch["entry"].rsplit(".", 1)[-1]
        kind = next((kind for kind in NOT_A_TRAINER if kind in module), None)
        if kind is not None:
            assert result.code == 2, launch["entry"]
            assert NOT_A_TRAINER[kind] in result.err, f"{launch['entry']}: {result.err}"
