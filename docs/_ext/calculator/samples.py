"""Answers by chance, by which the expressions are held to the memory model itself."""

import random
from collections.abc import Iterator
from typing import Any

from calculator import form, javascript, numbers
from calculator.numbers import Condition, NotWritableError, Number
from calculator.paths import apply
from calculator.questions import Expressions, Traced
from calculator.reading import read
from tuner.memory import estimate, rollout_memory


def random_answers(seed: int, count: int) -> Iterator[dict[str, int | str]]:
    """Answers over all that the form admits, its ends among them."""
    chance = random.Random(seed)
    for _ in range(count):
        found: dict[str, int | str] = {
            "model": chance.choice(form.models()),
            "card": chance.choice(form.cards()),
        }
        for amount in form.AMOUNTS:
            ends = chance.random() < 0.2
            evenly = round(amount.low * (amount.high / amount.low) ** chance.random())
            found[amount.name] = chance.choice((amount.low, amount.high, amount.start)) if ends else evenly
        for choice in form.CHOICES:
            found[choice.name] = chance.choice(list(choice.options))
        if int(found["gpus"]) * int(found["nodes"]) < int(found["tensor_parallel"]):
            found["gpus"] = int(found["tensor_parallel"])
        yield found


def expect_equal(traced: Traced, count: int = 24) -> None:
    """Compare the expressions with the memory model on some answers.

    A number that is not known can get lost where nothing notices, as the key of a dictionary.

    Raises:
        NotWritableError: they differ.
    """
    for answers in random_answers(0, count):
        said, job = evaluated(traced, answers), read(answers)
        found = estimate(job)
        wanted: Expressions = {("rollout", "kv_bytes"): rollout_memory(job).kv_bytes}
        for phase in found.phases:
            wanted[phase.phase.value,] = True
            for moment in phase.moments:
                told = [value for name, value in said.items() if name[:2] == (phase.phase.value, moment.name)]
                if sum(told) != moment.bytes + sum(moment.interval):
                    raise NotWritableError(f"{phase.phase.value}, {moment.name} differs for {answers}")
        if any(said[name] != value for name, value in wanted.items()):
            raise NotWritableError(f"another job than the one of {answers}")


def evaluated(traced: Traced, answers: form.Answers) -> dict[tuple[str, ...], Any]:
    """What the expressions are for some answers."""
    rows, tables = javascript.rows(answers), traced.family.tables
    found: dict[int, Any] = {}

    def given(variable: str, column: str) -> Any:
        if variable == "form":
            return answers[column]
        if variable == "layers":
            variable, column = "model", "model.layers"
        return tables[variable][rows[variable]][column]

    def value(expression: Any) -> Any:
        if not isinstance(expression, (Number, Condition)):
            return expression
        for one in numbers.inside(expression):
            if id(one) not in found:
                found[id(one)] = apply(one, found, given)
        return found[id(expression)]

    return {name: value(expression) for name, expression in traced.expressions.items()}
