"""Building a finding from settings: where it stands, and what to paste."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from tuner.errors import Location
from tuner.evidence import Evidence
from tuner.findings import Finding, Numerics, Rule, Severity
from tuner.inputs.overrides import PROPOSED
from tuner.inputs.settings import Settings
from tuner.workload import Phase


def report(
    rule: Rule,
    settings: Settings,
    message: str,
    *,
    keys: Sequence[str],
    overrides: Iterable[str] = (),
    severity: Severity | None = None,
    phase: Phase | None = None,
    notes: Iterable[str] = (),
    effect: Numerics | None = None,
) -> Finding:
    """A finding at the first of ``keys`` that the user set.

    Args:
        rule: the check's identity.
        settings: where the keys were set.
        message: one sentence with the values found.
        keys: the keys it is about, the most telling first.
        overrides: assignments that put it right.
        severity: another severity than the rule's own.
        phase: the phase that it concerns, if one.
        notes: caveats, one sentence each.
        effect: another effect on the training than the rule's own.
    """
    return Finding(
        rule=rule,
        message=message,
        severity=severity or rule.severity,
        evidence=Evidence.EXACT,
        phase=phase,
        keys=tuple(keys),
        overrides=tuple(overrides),
        location=_location(settings, keys),
        notes=tuple(notes),
        effect=effect,
    )


def assign(settings: Settings, key: str, value: object) -> str:
    """The override that sets a key, with ``+`` where this configuration has no such key yet."""
    text = "null" if value is None else str(value)
    return f"{'' if settings.takes(key) else '+'}{key}={text}"


def _location(settings: Settings, keys: Iterable[str]) -> Location | None:
    """Where the user set the first of the keys that are set; None where nobody typed that, but it is proposed."""
    origins = (settings.origin(key) for key in keys if settings.is_set(key))
    place = next((origin.location for origin in origins if origin is not None), None)
    return None if place is not None and place.source == PROPOSED else place


def of_own_word(word: str, known: Sequence[str], *, in_copy: bool) -> Severity:
    """How bad a word is that code of one's own may add: one that is like none of the known is no slip.

    Args:
        word: that is not known.
        known: those that are.
        in_copy: whether they are all that stand in a copy of the trainer, which has the code to add some.
    """
    likely = in_copy or get_close_matches(word.lower(), known, n=1)
    return Severity.WARNING if likely else Severity.ADVICE
