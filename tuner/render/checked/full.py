"""Each finding with the line that it is about, a caret under the value, what to do, and where to read on."""

from collections.abc import Iterator

from tuner.language import _
from tuner.render.checked.concise import finding_label
from tuner.render.checked.context import RenderContext, separated
from tuner.render.checked.fix_diff import fix_diff
from tuner.render.checked.wording import help_text, page, where
from tuner.render.columns import cells
from tuner.render.terminal import Terminal, plain
from tuner.render.words import SEVERITY_COLOURS, sentence, titled
from tuner.review.input_findings import Excerpt, FindingLine, Fix
from tuner.review.review import Review

_TAB = 4  # columns that a tab is shown as
_DIFF_STYLES = {"+": "green", "-": "red"}


def parts(review: Review, context: RenderContext) -> Iterator[str]:
    """A paragraph for each finding; empty where there is none."""
    return separated(_paragraph(line, context.terminal) for line in review.lines)


def _paragraph(line: FindingLine, terminal: Terminal) -> str:
    message = plain(line.finding.message)
    place = terminal.style(where(line), "bold")
    number = str(line.location.line or "")
    margin = " " * (len(number) + 1)
    text = [f"{place}: {finding_label(line, terminal)}: {message}"]
    if line.excerpt is not None:
        text += _frame(line, line.excerpt, terminal)
    for note in _notes(line):
        text.append(f"{margin}{terminal.style('=', 'cyan')} {note}")
    for changed in (
        fix_diff(line.fix) if line.fix is not None and not line.fix.refused and not line.fix.hides else ()
    ):
        text.append(f"{margin}  {_coloured(changed, terminal)}")
    return "\n".join(text)


def _frame(line: FindingLine, excerpt: Excerpt, terminal: Terminal) -> list[str]:
    """The line of the input, and carets under the value."""
    number = str(line.location.line)
    bar = terminal.style("|", "cyan")
    first, last = excerpt.shown or (0, len(excerpt.text))
    before = ("" if excerpt.shown is None else "... ") + _shown(excerpt.text[first : excerpt.start])
    value = _shown(excerpt.text[excerpt.start : excerpt.end])
    after = _shown(excerpt.text[excerpt.end : last]) + ("" if excerpt.shown is None else " ...")
    carets = terminal.style("^" * max(1, cells(value)), SEVERITY_COLOURS[line.finding.severity])
    margin = " " * (len(number) + 1)
    return [
        f"{margin}{bar}",
        f"{terminal.style(number, 'cyan')} {bar} {before}{value}{after}",
        f"{margin}{bar} {' ' * cells(before)}{carets}",
    ]


def _shown(text: str) -> str:
    """A part of a line as it stands on a screen: tabs as blanks, other control characters as escapes."""
    return plain(text.replace("\t", " " * _TAB))


def _notes(line: FindingLine) -> list[str]:
    """What else there is to say of a finding, each part on a line of its own."""
    finding = line.finding
    notes = [titled(_("note"), sentence(plain(note))) for note in finding.notes]
    if line.origin and line.key and (line.section or not line.location.line):
        notes.append(
            titled(
                _("note"),
                _("{key} is not set: {origin}").format(key=plain(line.key), origin=plain(line.origin)),
            )
        )
    elif line.origin and line.excerpt is None:
        notes.append(titled(_("set by"), plain(line.origin)))
    if line.overrides:
        notes.append(titled(_("help"), help_text(line)))
    refused = line.no_fix if line.fix is None else line.fix.refused
    if refused:
        notes.append(titled(_("no fix"), plain(refused)))
    notes.append(titled(_("see"), page(finding.rule) or f"tuner rule {finding.rule.code}"))
    if line.fix is not None and not line.fix.refused:
        notes.append(_fix_option(line.fix))
    return notes


def _fix_option(fix: Fix) -> str:
    """The option that applies a fix."""
    if not fix.safe:
        return titled(_("fix that you decide on"), "tuner check --unsafe-fixes")
    return titled(_("fix") if fix.tried else _("untried fix"), "tuner check --fix")


def _coloured(changed: str, terminal: Terminal) -> str:
    style = _DIFF_STYLES.get(changed[:1])
    return changed if style is None else terminal.style(changed, style)
