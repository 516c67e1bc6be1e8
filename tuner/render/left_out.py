"""How an answer says which parts of the job it does not count."""

from collections.abc import Sequence

from tuner.language import _
from tuner.render.words import clauses, listed, place
from tuner.trainers.key_facts import Affects
from tuner.trainers.protocol import LeftOut

_NAMED = 3  # in one sentence; the others are counted


def without(left_out: Sequence[LeftOut], *, fits: bool) -> str:
    """What follows the word of the verdict: ``", without the reward model"``; empty where memory is whole."""
    names = [part.name for part in left_out if part.affects is not Affects.SECONDS]
    if not names:
        return ""
    text = _(", without {listed}") if fits else _(", even without {listed}")
    return text.format(listed=_listed(names))


def seconds_without(left_out: Sequence[LeftOut]) -> str:
    """What only the seconds leave out, and what they take for another part; empty where nothing is."""
    names = [part.name for part in left_out if part.affects is Affects.SECONDS]
    missing = _(" The seconds leave out {listed}.").format(listed=_listed(names)) if names else ""
    return missing + "".join(
        f" {text}" for text in dict.fromkeys(part.priced_as for part in left_out) if text
    )


def named(left_out: Sequence[LeftOut]) -> str:
    """Each part with the setting by which the job has it, and the place of that."""
    return clauses(
        _("{name} ({key}={value}{place})").format(
            name=part.name, key=part.key, value=part.value, place=_at(part)
        )
        for part in left_out
    )


def _at(part: LeftOut) -> str:
    location = None if part.origin is None else part.origin.location
    return "" if location is None else _(", {place}").format(place=place(location))


def _listed(names: Sequence[str]) -> str:
    shown, more = list(names[:_NAMED]), len(names) - _NAMED
    if more > 0:
        shown = [*names[: _NAMED - 1], _("{more} others").format(more=more + 1)]
    return _(" and ").join([listed(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
