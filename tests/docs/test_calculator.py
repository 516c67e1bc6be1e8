"""The calculator's JavaScript says what Python says; a formula that it cannot have stops the build."""

import json
import math
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import pytest
import quickjs

import calculator_page
from calculator import answer, form, layers, numbers, paths, questions, reading, samples
from calculator.numbers import NotWritableError
from calculator.samples import random_answers
from tests.cli.runner import ROOT, run
from tuner.memory import Estimate, estimate, rollout_memory
from tuner.memory.fsdp import order, states
from tuner.memory.head import fused

RANDOM_ANSWERS = 50  # of each of as many parts
PARTS = 24
STATIC = ROOT / "docs" / "_static"


@pytest.fixture(scope="module")
def engine() -> Any:
    """A JavaScript engine that has the calculator, without a page."""
    context = quickjs.Context()
    context.eval(answer.memory_script())
    context.eval((STATIC / "calculator-answers.js").read_text(encoding="utf-8"))
    data = json.dumps(calculator_page.page_data(calculator_page.words()))
    context.eval(f"var model = tunerAnswers({data});")
    return context


def asked(engine: Any, function: str, *given: object) -> Any:
    listed = ", ".join(json.dumps(one) for one in given)
    return json.loads(engine.eval(f"JSON.stringify(model.{function}({listed}))"))


def as_told(found: Estimate) -> list[dict[str, Any]]:
    return [
        {
            "name": phase.phase.value,
            "peak": phase.peak_bytes,
            "low": phase.interval[0],
            "high": phase.interval[1],
            "moments": {
                moment.name: _parts(
                    (term.item.value, term.bytes, term.low, term.high) for term in moment.terms
                )
                for moment in phase.moments
            },
        }
        for phase in found.phases
    ]


def _parts(terms: Iterable[tuple[str, int, int, int]]) -> dict[str, list[int]]:
    """Bytes by the part of a bar, with the ends of the interval."""
    told: dict[str, list[int]] = {}
    for item, *sizes in terms:
        told[item] = [sum(pair) for pair in zip(told.get(item, (0, 0, 0)), sizes, strict=True)]
    return {item: sizes for item, sizes in told.items() if sizes[2]}


def as_judged(said: dict[str, Any], moments: dict[str, set[str]]) -> list[dict[str, Any]]:
    """What the script said; of a moment that the step does not have it says nothing that counts."""
    return [
        {
            "name": phase["name"],
            "peak": phase["peak"],
            "low": phase["low"],
            "high": phase["high"],
            "moments": {
                moment["name"]: _parts(
                    (term["item"], term["bytes"], term["low"], term["high"]) for term in moment["terms"]
                )
                for moment in phase["moments"]
                if moment["name"] in moments[phase["name"]]
            },
        }
        for phase in said["phases"]
    ]


@pytest.mark.sampled(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_number_is_the_one_of_python_on_random_answers(engine: Any, part: int) -> None:
    """Each phase, moment and part, with its interval, the verdict, and what the engine holds."""
    differing = []
    for answers in random_answers(part, RANDOM_ANSWERS):
        job = reading.read(answers)
        found, rollout = estimate(job), rollout_memory(job)
        said = asked(engine, "judged", answers)
        told = as_told(found)
        moments = {phase["name"]: set(phase["moments"]) for phase in told}
        same = (
            as_judged(said, moments) == told
            and sorted(said["problems"]) == sorted(found.problems)
            and sorted(said["doubts"]) == sorted(found.doubts)
            and said["verdict"] == answer.verdict(found)
            and said["capacity"] == found.capacity_bytes
            and said["worst"]["name"] == found.worst.phase.value
            and said["rollout"] == {name: getattr(rollout, name) for name in questions.CAPACITIES}
        )
        if not same:
            differing.append(answers)
    assert differing == []


def test_random_answers_reach_every_verdict_and_reason() -> None:
    """The comparison above is one of everything that the page can say."""
    missing = {"fits", "may_not_fit", "does_not_fit", "will_not_start", *answer.texts()}
    for part in range(PARTS):
        for answers in random_answers(part, RANDOM_ANSWERS):
            found = estimate(reading.read(answers))
            missing -= {answer.verdict(found), *found.problems, *found.doubts}
        if not missing:
            return
    assert not missing


@pytest.mark.sampled(12)
@pytest.mark.parametrize("model", sorted(form.shapes()))
def test_every_model_is_there(engine: Any, model: str) -> None:
    for card in form.cards():
        answers = {**form.start(), "model": model, "card": card}
        found, said = estimate(reading.read(answers)), asked(engine, "judged", answers)
        assert [phase["peak"] for phase in said["phases"]] == [phase.peak_bytes for phase in found.phases]


#: Numbers that verl accepts: others the command line judges as it would have them repaired.
_ACCEPTED = {"gpus": 8, "nodes": 2, "prompts": 1024, "mini_batch": 256, "responses": 8}
_ACCEPTED |= {"prompt": 1024, "response": 4096, "budget": 16384, "tensor_parallel": "1", "strategy": "fsdp"}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("answers", [form.start(), *({**one, **_ACCEPTED} for one in random_answers(2, 8))])
def test_the_command_gives_the_same_on_the_command_line(engine: Any, answers: dict[str, Any]) -> None:
    command = asked(engine, "command", answers)
    assert command == answer.command(answers)
    words = command.replace("\\\n", "").split()
    result = run(*words[1:], "--output-format", "json")
    told, said = json.loads(result.out), asked(engine, "judged", answers)
    memory = told["memory"]
    assert memory["capacity_bytes"] == said["capacity"]
    phases = {phase["phase"]: (phase["peak_bytes"], phase["interval_bytes"]) for phase in memory["phases"]}
    assert phases == {
        phase["name"]: (phase["peak"], [phase["low"], phase["high"]]) for phase in said["phases"]
    }
    assert sorted(memory["problems"]) == sorted(said["problems"])
    assert told["rollout"]["concurrent_sequences"] == said["rollout"]["concurrent_sequences"]
    shorter = {"may_not_fit"} if told["memory_condition"] == "mean_length" else set()  # it asks no lengths
    assert told["memory_verdict"] in {said["verdict"], *shorter}


def test_a_link_keeps_the_answers(engine: Any) -> None:
    (answers,) = random_answers(3, 1)
    read = asked(engine, "read", asked(engine, "link", answers))
    assert read == {name: str(value) for name, value in answers.items()}
    assert asked(engine, "read", "#model=%E0%A4%A&nothing&unknown=1&gpus=4") == {"gpus": "4"}


def test_it_asks_nobody_and_is_small() -> None:
    scripts = [answer.memory_script()]
    scripts += [(STATIC / name).read_text(encoding="utf-8") for name in calculator_page.SCRIPTS[1:]]
    for script in scripts:
        assert not any(word in script for word in ("http:", "https:", "fetch(", "XMLHttpRequest", "import "))
    assert sum(map(len, scripts)) < 200_000


def test_the_example_is_python_s() -> None:
    said = calculator_page.words()
    shown = answer.example(form.start(), said)
    found = estimate(reading.read(form.start()))
    assert f">{said[answer.verdict(found)]}<" in shown
    for phase in found.phases:
        assert f"<code>{phase.phase.value}</code>" in shown


# -- what cannot be written -----------------------------------------------------------------------


def _looked_up(*, b_s: int, N: int, W: int) -> int:  # noqa: N803
    return b_s * {size: -(-N // size) for size in range(1, 1025)}.get(W, 0)


def _by_logarithm(*, b_s: int, N: int, W: int) -> int:  # noqa: N803
    return b_s * round(math.log(N)) * W


def _too_large(*, b_s: int, N: int, W: int) -> int:  # noqa: N803
    return b_s * N * W * 2**20


def _by_power(*, T: int, V: int) -> int:  # noqa: N803
    return int(V**0.5) * T


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    ("room", "name", "formula"),
    [
        (states, "shard_bytes", _looked_up),
        (states, "shard_bytes", _by_logarithm),
        (states, "shard_bytes", _too_large),
        (fused, "torch_forward_bytes", _by_power),
    ],
)
def test_a_formula_that_cannot_be_written_stops_the_build(
    monkeypatch: pytest.MonkeyPatch, room: ModuleType, name: str, formula: Any
) -> None:
    monkeypatch.setattr(room, name, formula)
    with pytest.raises(TypeError):
        samples.expect_equal(questions.ask())


@pytest.mark.sampled(24)
def test_another_dependence_on_the_layers_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = order.UnitOrder.waiting
    monkeypatch.setattr(order.UnitOrder, "waiting", lambda own, layer: plain(own, layer) * ((layer + 2) // 3))
    with pytest.raises(NotWritableError):
        questions.ask()


@pytest.mark.sampled(24)
def test_the_model_is_as_it_was_after_it_was_traced() -> None:
    answers = form.start()
    before = estimate(reading.read(answers))
    answer.traced()
    assert estimate(reading.read(answers)) == before


def test_numbers_decide_what_is_certain() -> None:
    explorer = paths.Explorer({}, layers.FEW, lambda: None)
    one = numbers.symbol("form", "one", 3, 9)
    tree = explorer.tree(lambda: ("many" if one > 20 else "some") if one > 5 else "few")
    assert paths.leaves(tree) == ["some", "few"]
    with pytest.raises(NotWritableError):
        bool(one > 5)
    with pytest.raises(NotWritableError):
        numbers.symbol("form", "large", 0, 2**40) * 2**20
    with pytest.raises(TypeError):
        math.sqrt(one)
