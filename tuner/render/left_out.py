"""How an answer says which parts of the job it does not count."""

from collections.abc import Sequence

from tuner.render.words import place
from tuner.trainers.protocol import Affects, LeftOut

_NAMED = 3  # in one sentence; the others are counted


def without(left_out: Sequence[LeftOut], *, fits: bool) -> str:
    """What follows the word of the verdict: ``", without the reward model"``; empty where memory is whole."""
    names = [part.name for part in left_out if part.affects is not Affects.SECONDS]
    if not names:
        return ""
    return f", {'' if fits else 'even '}without {_listed(names)}"


def seconds_without(left_out: Sequence[LeftOut]) -> str:
    """A sentence on what only the seconds leave out; empty where nothing is."""
    names = [part.name for part in left_out if part.affects is Affects.SECONDS]
    return f" The seconds leave out {_listed(names)}." if names else ""


def named(left_out: Sequence[LeftOut]) -> str:
    """Each part with the setting by which the job has it, and the place of that."""
    return "; ".join(f"{part.name} ({part.key}={part.value}{_at(part)})" for part in left_out)


def _at(part: LeftOut) -> str:
    location = None if part.origin is None else part.origin.location
    return "" if location is None else f", {place(location)}"


def _listed(names: Sequence[str]) -> str:
    shown, more = list(names[:_NAMED]), len(names) - _NAMED
    if more > 0:
        shown = [*names[: _NAMED - 1], f"{more + 1} others"]
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
