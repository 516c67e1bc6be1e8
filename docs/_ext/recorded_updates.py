"""What recorded updates of verl's engine took: for the tables of a page and for numbers in its text."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from tuner.units import GIB

DATA = Path(__file__).parents[1] / "validation" / "data"
_FILE = "heads-in-verl-2xh100.json"  # that the text speaks of
_WORKER = "update-in-verl-2xh100.json"


@cache
def cases(file: str) -> tuple[dict[str, Any], ...]:
    """The cases of a recorded file, in its order."""
    return tuple(json.loads((DATA / file).read_text(encoding="utf-8"))["cases"])


def warm(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Its updates but the first, which includes what is compiled; none of a case that stopped."""
    updates: list[dict[str, Any]] = case["updates"]
    return updates[1:]


def seconds(case: dict[str, Any]) -> float:
    """The median of its updates."""
    return float(median(update["seconds"] for update in warm(case)))


def peak(case: dict[str, Any]) -> str:
    """The most that was allocated in any of its updates."""
    return f"{max(update['peak_allocated_bytes'] for update in warm(case)) / GIB:.1f} GiB"


def _named(name: str) -> dict[str, Any]:
    (case,) = (case for case in cases(_FILE) if case["case"] == name)
    return case


def _seconds(name: str, *words: str | tuple[str, ...]) -> str:
    """Seconds of a case; a number behind its name says of how many updates."""
    *times, _overrides = words
    return f"{seconds(_named(name)) * (int(str(times[0])) if times else 1):.1f} s"


def _peak(name: str, _overrides: tuple[str, ...]) -> str:
    return peak(_named(name))


def _tokens(name: str, _overrides: tuple[str, ...]) -> str:
    return f"{_named(name)['tokens']:,}"


def _difference(name: str, _overrides: tuple[str, ...]) -> str:
    """How far results of verl's head and of ours are apart in verl's own worker: two figures."""
    differences = json.loads((DATA / _WORKER).read_text(encoding="utf-8"))["differences"]
    if name == "grad_norm":
        return f"{100 * differences[name]:.1g}\N{NO-BREAK SPACE}%"
    return f"{differences['log_probs'][name]:.1g}"


#: What can be asked of the recorded updates: the name of a case follows.
QUANTITIES: dict[str, Callable[..., str]] = {
    "update-seconds": _seconds,
    "update-peak": _peak,
    "update-tokens": _tokens,
    "worker-difference": _difference,
}
