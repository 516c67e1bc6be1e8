"""The estimate as a sum that can be checked by hand."""

import json
import re
from collections.abc import Callable
from itertools import takewhile

import pytest
from msgspec.structs import replace

from tests.cli.golden import expect
from tests.cli.runner import ROOT, run
from tests.workloads import grpo_7b, grpo_32b_megatron, ppo_7b
from tuner.memory import estimate
from tuner.memory.host.controller import PROCESS
from tuner.render.explain import explanation, written
from tuner.render.terminal import Terminal
from tuner.trainers.verl.batch_fields import HELD_BATCH
from tuner.workload import Workload

CONFIG = str(ROOT / "tests/cli/configs/grpo.yaml")
PAPER = Terminal(width=80)
AMOUNT = re.compile(r" +([\d,]+)  \S")

COPIES = HELD_BATCH.copies


def explained(workload: Workload, terminal: Terminal = PAPER) -> str:
    return explanation(workload, estimate(workload), terminal)


def phases(text: str) -> dict[str, tuple[list[int], int]]:
    """Addends and sum of each phase, read off the text."""
    by_phase = {}
    lines = iter(text.splitlines())
    for line in lines:
        if ", peak at " in line:
            block = [AMOUNT.match(row) for row in takewhile(bool, lines)]
            amounts = [int(match[1].replace(",", "")) for match in block if match]
            by_phase[line.split(",")[0]] = (amounts[:-1], amounts[-1])
    return by_phase


@pytest.mark.parametrize(
    ("workload", "name"), [(grpo_7b, "explain-fsdp2.txt"), (grpo_32b_megatron, "explain-megatron.txt")]
)
def test_whole_text_at_80_columns(workload: Callable[[], Workload], name: str) -> None:
    expect(name, explained(workload()))


@pytest.mark.parametrize("workload", [grpo_7b, ppo_7b, grpo_32b_megatron])
def test_the_addends_that_are_shown_add_up_to_the_peak(workload: Callable[[], Workload]) -> None:
    job = workload()
    shown = phases(explained(job))
    peaks = {phase.phase.value: phase.peak_bytes for phase in estimate(job).phases}
    assert {name: total for name, (_, total) in shown.items()} == peaks
    assert all(sum(addends) == total for addends, total in shown.values())
    assert next(iter(shown)) == estimate(job).worst.phase.value


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_but_a_single_word_is_longer_than_the_screen(width: int) -> None:
    for workload in (grpo_7b, ppo_7b, grpo_32b_megatron):
        text = explained(workload(), Terminal(width=width, unicode=False))
        assert text.isascii()
        assert [line for line in text.splitlines() if len(line) > width and len(line.split()) > 1] == []


def test_an_addend_is_explained_once_and_then_referred_to() -> None:
    text = explained(grpo_7b())
    assert text.count("memory.fsdp.states.shard_bytes") == 1
    assert text.count("actor_parameters, 3.55 GiB, exact, see rollout") == text.count("actor_parameters") - 1


def test_numbers_are_put_into_formulas() -> None:
    assert written("(c + p) b_c U_l").replace("\u00a0", " ") == "(c + p) b_c U_l"
    symbols = [("N", 1000), ("W", 8), ("b_s", 4), ("f", 0.85)]
    put_in = written("2 b_s ceil(N / W) - max(f N, 1024)", symbols).replace("\u00a0", " ")
    assert put_in == "2 x 4 x ceil(1,000 / 8) - max(0.85 x 1,000, 1,024)"


def test_sizes_are_followed_down_to_the_model() -> None:
    text = re.sub(r"\s+", " ", explained(grpo_7b()))
    assert "U_l, parameters of the unit that works" in text
    assert "= 3,584 x (2 x 28 x 128 + 2 x 4 x 128) + 28 x 128 + 2 x 4 x 128 + 3 x 3,584 x 18,944" in text
    assert re.search(r"a_l, .* norms [\d,]+: .* attention [\d,]+: .* MLP [\d,]+: ", text)


def test_the_command_writes_the_sum_out() -> None:
    arguments = ("advise", CONFIG, "--model", "qwen2.5-7b", "--gpu", "h100-sxm")
    done = run(*arguments, "--explain")
    assert done.code == 0
    assert "The sum, written out" in done.out and "The symbols" in done.out
    assert "The sum, written out" not in run(*arguments).out


def test_json_holds_every_formula_with_its_numbers() -> None:
    done = run("advise", CONFIG, "--model", "qwen2.5-7b", "--gpu", "h100-sxm", "-f", "json")
    report = json.loads(done.out)
    known = {(symbol["name"], symbol["number"]): symbol for symbol in report["symbols"]}
    for phase in report["memory"]["phases"]:
        for moment in phase["moments"]:
            for term in moment["terms"]:
                assert term["formula"] and term["source"]
                assert all(entry in known for entry in term["symbols"].items())
    layer = next(symbol for (name, _), symbol in known.items() if name == "U_l")
    assert layer["formula"] == "H (2 h d + 2 k d) + h d + 2 k d + 3 H I + 2 H"
    assert layer["symbols"] == {"H": 3584, "h": 28, "d": 128, "k": 4, "I": 18944}
    assert layer["meaning"] == "parameters of the unit that works"


def test_host_memory_is_a_sum_of_its_own() -> None:
    """Eight GPUs: 8 B of moments and 4 B of weights for each of 7,615,616,512 parameters."""
    job = grpo_7b().with_actor_engine(param_offload=True, optimizer_offload=True)
    text = explained(job)
    section = text.partition("host memory per node\n")[2].partition("\n\n")[0]
    assert "60,924,932,096  actor_optimizer, 56.74 GiB, exact" in section
    assert "2 G b_o ceil(N_t / W) = 2 x 8 x 4 x ceil(7,615,616,512 / 8)" in re.sub(r"\s+", " ", section)
    amounts = [int(match[1].replace(",", "")) for match in map(AMOUNT.match, section.splitlines()) if match]
    assert amounts[:-1] == sorted(amounts[:-1], reverse=True)
    assert sum(amounts[:-1]) == amounts[-1] == estimate(job).host_bytes
    assert "G, GPUs of a node" in text
    limited = replace(job, cluster=replace(job.cluster, host_memory_bytes=200 * 2**30))
    assert re.search(r"in all, \d+\.\d\d GiB of 200\.0 GiB; at\s+most \d+\.\d GiB", explained(limited))


def test_a_job_without_anything_on_the_host_has_no_such_sum() -> None:
    job = replace(grpo_7b(), reference=None).with_actor_engine(param_offload=False, optimizer_offload=False)
    assert "host memory per node" not in explained(job)


def test_json_holds_the_addends_in_host_memory() -> None:
    offload = "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True"
    done = run("advise", CONFIG, offload, "--model", "qwen2.5-7b", "--gpu", "h100-sxm", "-f", "json")
    memory = json.loads(done.out)["memory"]
    assert sum(term["bytes"] for term in memory["host_terms"]) == memory["host_bytes"] > 0
    terms = {term["name"]: term["bytes"] for term in memory["host_terms"]}
    held = terms.pop("controller_batch")
    processes = terms.pop("controller_processes") + terms.pop("gpu_processes")
    offloaded = sum(terms.values())
    highest = offloaded + held * COPIES[2] // COPIES[1] + processes * PROCESS.high // PROCESS.typical
    assert memory["host_interval_bytes"] == [memory["host_bytes"], highest]
