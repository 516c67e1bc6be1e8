"""One line per finding, for continuous integration and editors. Lines are never wrapped."""

from tuner.errors import Location
from tuner.findings import Finding
from tuner.language import _
from tuner.render import does_not_fit, lost_override, not_modelled
from tuner.render.answer import Answer
from tuner.render.terminal import Terminal, plain
from tuner.render.words import SEVERITY_COLOURS, pasteable
from tuner.review.checked import Line


def lines(answer: Answer) -> tuple[Line, ...]:
    """All findings, with a bad verdict among them, worst first, then in the file's order."""
    listed = [
        Line(
            location=_location(answer, item.finding, item.overrides),
            finding=item.finding,
            overrides=item.overrides,
        )
        for item in answer.advice.recommendations
    ]
    missing = does_not_fit.check(answer.advice)
    others = [
        *([missing] if missing is not None else []),
        *not_modelled.check(answer),
        *lost_override.check(answer.given),
    ]
    listed += [Line(location=_location(answer, other, ()), finding=other, overrides=()) for other in others]
    return tuple(sorted(listed, key=lambda line: line.rank))


def concise(line: Line, terminal: Terminal) -> str:
    """``path:line:col: severity CODE name: message (override: ...)``."""
    place, finding = line.location, line.finding
    severity = terminal.style(finding.severity.value, SEVERITY_COLOURS[finding.severity])
    where = f"{plain(place.source)}:{place.line or 1}:{place.column or 1}"
    text = f"{where}: {severity} {finding.rule.code} {finding.rule.name}: {plain(finding.message)}"
    if line.overrides:
        text += _(" (override: {overrides})").format(
            overrides=" ".join(pasteable(override) for override in line.overrides)
        )
    return text


def top_of(answer: Answer) -> Location:
    """The place of a finding that is about no line: the top of the file."""
    return Location(source=answer.given.source, line=1, column=1)


def _location(answer: Answer, finding: Finding, overrides: tuple[str, ...]) -> Location:
    """The finding's own place, else where the user set a key that it names, else the top of the file."""
    if finding.location is not None:
        return finding.location
    named = [override.lstrip("+~").partition("=")[0] for override in overrides]
    for key in (*finding.keys, *named):
        origin = answer.settings.origin(key) if answer.settings.is_set(key) else None
        if origin is not None and origin.location is not None:
            return origin.location
    return top_of(answer)
