"""The way of an answer, as the architecture page shows it, leads down through the floors."""

import importlib
from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType

import pytest

from tests.cli.runner import ROOT
from tuner.consultation.premises import Premises

EXAMPLE = str(ROOT / "docs/examples/qwen2.5-7b-grpo.yaml")


@pytest.fixture(scope="module")
def traced() -> Iterator[tuple[ModuleType, list[str]]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs" / "_ext"))
        module = importlib.import_module("call_trace")
        yield module, list(module.lines(module.trace_calls(EXAMPLE, [], Premises(gpu="8xh100-sxm"))))


@pytest.mark.sampled(3)
def test_every_call_leads_to_a_lower_floor(traced: tuple[ModuleType, list[str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs" / "_ext"))
        floors = [set(floor) for floor in importlib.import_module("house")._layers()]
    own = next(place for place, floor in enumerate(floors) if "consultation" in floor)
    below = set().union(*floors[own:])
    rooms = {line.split()[1] for line in traced[1]}
    assert {"consultation", "inputs", "trainers", "models", "gpus", "advise"} <= rooms <= below


def test_what_an_answer_takes_stands_in_the_order_in_which_it_is_called(
    traced: tuple[ModuleType, list[str]],
) -> None:
    names = [line.split()[0] for line in traced[1]]
    steps = ["consult", "choose_card", "read_given", "choose", "read_job", "advise", "left_out"]
    assert sorted(steps, key=names.index) == steps
    assert len(set(traced[1])) > 50


def test_a_value_is_followed_to_the_room_that_reads_it(traced: tuple[ModuleType, list[str]]) -> None:
    names = [line.split()[0] for line in traced[1]]
    card = names[names.index("choose_card") :][:4]
    assert "find_gpu" in card


def test_calls_of_other_rooms_are_not_told(traced: tuple[ModuleType, list[str]]) -> None:
    depths = [(len(line) - len(line.lstrip()), line.split()[1]) for line in traced[1]]
    for (depth, room), (next_depth, _next) in pairwise(depths):
        assert next_depth <= depth or room == "consultation"
