"""Why nothing fits: what is in the way, and what the nearest of each kind of change would cost."""

import json
import re
from functools import cache
from typing import Any

import pytest

from tests.cli.runner import run
from tests.plan.jobs import ROLLOUT, TYPED

pytestmark = pytest.mark.usefixtures("plans_are_kept")

TENSOR = f"{ROLLOUT}.tensor_model_parallel_size"


@cache
def shown(model: str, gpu: str, *options: str, more: tuple[str, ...] = (), form: str = "text") -> str:
    given = ("/dev/null", "--model", model, "--verl-version", "0.9.1", "--gpu", gpu)
    sizes = ("--gpus-per-node", gpu.partition("x")[0])
    result = run("plan", *given, *sizes, *options, "--output-format", form, "--", *TYPED, *more)
    assert result.code == 1, result.err
    return result.out if form == "json" else " ".join(result.out.split())


def relaxed(model: str, gpu: str, *options: str, more: tuple[str, ...] = ()) -> dict[str, Any]:
    answer = json.loads(shown(model, gpu, *options, more=more, form="json"))
    return {one["kind"]: one for one in answer["relaxations"]}


def test_a_model_whose_weights_alone_are_too_large_says_so_in_every_phase_that_has_them() -> None:
    words = shown("llama-3.1-70b", "1xh100-sxm")
    everywhere = words.partition("these lack memory, at least: ")[2].partition(".  ")[0]
    assert re.search(r"rollout \d+\.\d GiB", everywhere) and re.search(r"wake_up \d+\.\d GiB", everywhere)
    assert re.search(r"It would surely fit with: \d+ x h100-sxm on \d nodes? \(\d+ s a step", words)


def test_more_gpus_of_a_node_go_before_more_nodes_where_nobody_knows_how_many_it_has() -> None:
    words = shown("qwen2.5-14b", "1xrtx-4090")
    assert re.search(r"It would surely fit with: \d x rtx-4090 on 1 node", words)
    assert "It fits on none of these for certain" not in words  # the heading has said so of the one


@pytest.mark.sampled(4)
def test_a_model_for_which_no_number_of_the_cards_is_enough_is_planned_on_nodes_of_larger_ones() -> None:
    words = shown("qwen2.5-72b", "1xrtx-4090")
    assert re.search(r"It would surely fit with: \d+ x [\w-]+ on \d nodes? \(", words)
    assert "on a card of 23.5 GiB" in words


@pytest.mark.parametrize(("gpus", "size"), [(8, 3), (6, 6)])
def test_a_held_size_that_divides_nothing_is_told_and_kept(gpus: int, size: int) -> None:
    words = shown("qwen2.5-7b", f"{gpus}xh100-sxm", "--hold", f"{TENSOR}={size}")
    assert f"No plan for {gpus} x h100-sxm" in words and "Best on" not in words
    assert "verl 0.9.1 stops when it builds the rollout (CFG112)" in words
    assert f"{TENSOR}=2 lifts it, and is held otherwise" in words
    assert "settings were looked at" not in words


def test_what_fits_the_card_and_not_the_host_is_priced_with_a_larger_one() -> None:
    """A model of 32B in two cards' worth of nodes, whose offloaded states are twice what these have."""
    long = ("data.max_response_length=16384",)
    words = shown("qwen2.5-32b", "2xh100-sxm", more=long)
    assert "takes more host memory than a node is likely to have" in words
    assert re.search(r"a node needs [\d.]+ GiB of host memory, up to [\d.]+ GiB: nodes with 2 GPUs", words)
    host = relaxed("qwen2.5-32b", "2xh100-sxm", more=long)["host_memory"]
    assert f"nodes with {host['value']} GiB of host memory, told with --host-memory" in words
    given = ("/dev/null", "--model", "qwen2.5-32b", "--verl-version", "0.9.1", "--gpu", "2xh100-sxm")
    options = ("--gpus-per-node", "2", "--host-memory", host["value"], "--output-format", "json")
    answer = json.loads(run("plan", *given, *options, "--", *TYPED, *long).out)
    assert answer["plan"]["settings"][0]["seconds"] == host["seconds"]


def test_shorter_responses_and_a_larger_card_are_planned_anew() -> None:
    """The setting that comes nearest holds no sequence of full length, and its budgets are for such."""
    model, long = "qwen2.5-14b-instruct-1m", ("data.max_response_length=300000",)
    ways = relaxed(model, "1xh100-sxm", "--host-memory", "1000", more=long)
    assert ways["card"]["value"] == "h200-sxm"  # a slower kind of card is larger, and no answer
    assert ways["response_length"]["value"] == "150000"
    given = ("/dev/null", "--model", model, "--verl-version", "0.9.1", "--host-memory", "1000")
    for kind, card, more in (
        ("response_length", "1xh100-sxm", ("data.max_response_length=150000",)),
        ("card", "1xh200-sxm", long),
    ):
        result = run("plan", *given, "--gpu", card, "--output-format", "json", "--", *TYPED, *more)
        assert json.loads(result.out)["plan"]["settings"][0]["seconds"] == ways[kind]["seconds"]
