"""Building a finding of a check: where its keys were set, and what puts it right."""

from collections.abc import Iterable, Sequence

from tuner.evidence import Evidence
from tuner.findings import Finding, Rule
from tuner.trainers.settings_by_meaning import SettingsByMeaning


def report(
    rule: Rule,
    source: SettingsByMeaning,
    message: str,
    *,
    keys: Sequence[str],
    overrides: Iterable[str] = (),
    notes: Iterable[str] = (),
) -> Finding:
    """A finding at the first of its keys that the user set.

    Args:
        rule: the check's identity.
        source: where the keys were set.
        message: one sentence with the values that led to it.
        keys: the keys it is about, the most telling first.
        overrides: assignments that put it right.
        notes: caveats, one sentence each.
    """
    origins = (source.settings.origin(key) for key in keys if source.settings.is_set(key))
    return Finding(
        rule=rule,
        message=message,
        severity=rule.severity,
        evidence=Evidence.EXACT,
        keys=tuple(keys),
        overrides=tuple(overrides),
        location=next((origin.location for origin in origins if origin is not None), None),
        notes=tuple(notes),
    )
