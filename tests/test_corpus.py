"""Every launch of verl's own scripts gives advice or one clear message."""

import re
from typing import Any

import pytest

from tests.cli.runner import Result, run
from tests.corpus import launches
from tests.test_counted import WRONG

VERDICTS = {"FITS", "MAY NOT FIT", "DOES NOT FIT", "WILL NOT START", "CANNOT SAY"}
NOT_A_TRAINER = {  # entry points that train nothing, and the words that name them
    "generation": "generation",
    "eval": "evaluation",
}


def _advise(launch: dict[str, Any]) -> Result:
    release = launch["tags"][0].removeprefix("v")
    arguments = ["advise", "/dev/null", "--verl-version", release, "--gpu", "h100-sxm"]
    return run(*arguments, "--", *launch["overrides"])


DECIMAL = re.compile(r"\d [KMGT]B\b(?!/s)")  # bytes are told in binary units, rates are not
ONE_NUMBER = re.compile(
    r"(?<![\d.,])([\d.,]*\d)( GiB|%|)( to |\u2026)\1\2(?![.,]?\d)"
)  # an interval whose ends are written alike
TRAINERS = ("main_ppo", "sft_trainer", "sft_trainer_ray")
SLICES = 8  # every eighth launch, a mixture of all scripts


def test_all_launches_are_tried() -> None:
    assert len(launches()) == 403


@pytest.mark.sampled(24)
@pytest.mark.parametrize("part", range(SLICES))
def test_each_launch_ends_in_advice_or_one_message(part: int) -> None:
    results = [(launch, _advise(launch)) for launch in launches()[part::SLICES]]
    for launch, result in results:
        where = f"{launch['path']} {launch['tags']}: {result.err}"
        if result.code == 0:
            assert result.out.partition("  ")[0] in VERDICTS, where
            assert not result.err, where
            words = " ".join(result.out.split())
            assert not WRONG.search(words), where
            assert not ONE_NUMBER.search(words), where
            assert not DECIMAL.search(words), where
        else:
            _is_one_message(launch, result, where)
    trainers = [result for launch, result in results if launch["entry"].endswith(TRAINERS)]
    assert sum(result.code == 0 for result in trainers) >= 0.8 * len(trainers)


def _is_one_message(launch: dict[str, Any], result: Result, where: str) -> None:
    """Also names the kind of program that trains nothing."""
    assert result.code == 2, where
    assert result.err.startswith("error: "), where
    assert result.err.count("\n") == 1, where
    assert not result.out, where
    module = launch["entry"].rsplit(".", 1)[-1]
    assert all(words in result.err for kind, words in NOT_A_TRAINER.items() if kind in module), where


def test_other_entry_points_are_refused() -> None:
    modules = [(launch, launch["entry"].rsplit(".", 1)[-1]) for launch in launches()]
    others = [launch for launch, module in modules if any(kind in module for kind in NOT_A_TRAINER)]
    assert others
    assert {_advise(launch).code for launch in others[::3]} == {2}
