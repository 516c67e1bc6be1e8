"""One line per finding, for editors and for what reads lines. Lines are never wrapped."""

from collections.abc import Iterator

from tuner.render.checked.context import RenderContext
from tuner.render.checked.wording import description, where
from tuner.render.terminal import Terminal
from tuner.render.words import SEVERITY_COLOURS
from tuner.review.input_findings import FindingLine
from tuner.review.review import Review

FIX_MARK = "[*]"  # ruff's, beside the code of what ``--fix`` fixes and beside their number in the last line


def lines(review: Review, context: RenderContext) -> Iterator[str]:
    """One line per finding."""
    for checked in review.inputs:
        for line in checked.lines:
            yield concise(line, context.terminal)


def concise(line: FindingLine, terminal: Terminal) -> str:
    """``path:line:col: severity CODE name: message (override: ...)``."""
    return f"{where(line)}: {finding_label(line, terminal)}: {description(line)}"


def finding_label(line: FindingLine, terminal: Terminal) -> str:
    """Severity, code and name of a finding, with a mark where ``--fix`` is known to fix it."""
    rule, severity = line.finding.rule, line.finding.severity
    shown = terminal.style(severity.value, SEVERITY_COLOURS[severity])
    mark = f" {FIX_MARK}" if line.fix is not None and line.fix.removes_finding else ""
    return f"{shown} {rule.code}{mark} {rule.name}"
