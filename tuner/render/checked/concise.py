"""One line per finding, for editors and for what reads lines. Lines are never wrapped."""

from tuner.language import _
from tuner.render.terminal import Terminal, plain
from tuner.render.words import SEVERITY_COLOURS, pasteable
from tuner.review.checked import Line, Review


def concise(review: Review, terminal: Terminal) -> str:
    """One line per finding; empty where there is none."""
    return "\n".join(concise_line(line, terminal) for line in review.lines)


def concise_line(line: Line, terminal: Terminal) -> str:
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
