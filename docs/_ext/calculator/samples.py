"""Answers by chance, by which the expressions are held to the memory model itself."""

import random
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from calculator import form, javascript, numbers
from calculator.numbers import Condition, NotWritableError, Number
from calculator.paths import apply
from calculator.questions import PHASES, Traced
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
        totals: Counter[tuple[str, ...]] = Counter()
        for name, value in said.items():
            totals[name[:2]] += value
        wanted = {("rollout", "kv_bytes"): rollout_memory(job).kv_bytes}
        for phase in found.phases:
            for moment in phase.moments:
                wanted[phase.phase.value, moment.name] = moment.bytes + sum(moment.interval)
        phases = {phase.phase.value for phase in found.phases}
        differing: list[tuple[str, ...]] = [name for name, value in wanted.items() if totals[name] != value]
        differing += [(phase.value,) for phase in PHASES if said[phase.value,] is not (phase.value in phases)]
        if differing:
            raise NotWritableError(f"{differing} of {answers} are not what the model says")


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

    for one in _ordered(traced):
        found[id(one)] = apply(one, found, given)
    return {
        name: found[id(expression)] if isinstance(expression, (Number, Condition)) else expression
        for name, expression in traced.expressions.items()
    }


@lru_cache(maxsize=1)
def _ordered(traced: Traced) -> list[Any]:
    """All that the expressions are made of, each behind what it is applied to."""
    whole = numbers.together(traced.expressions.values())
    return [one for one in numbers.inside(whole) if one is not whole]
