"""One line per finding: ``path:line:col: severity CODE name: message (override: ...)``.

A format for programs, as SARIF is one, and so no document: an editor's problem matcher, ``grep`` or a hook
takes the place from the front of a line and the rest as its message. It is never wrapped, and its form is the
same in every language; the words in it are those of the documents.
"""

from collections.abc import Iterator

from tuner.render.checked.context import RenderContext
from tuner.render.checked.finding_text import finding_label
from tuner.render.checked.wording import description, where
from tuner.render.document.painting import line as painted_line
from tuner.render.terminal import Terminal
from tuner.review.input_findings import FindingLine
from tuner.review.review import Review


def lines(review: Review, context: RenderContext) -> Iterator[str]:
    """One line per finding."""
    for checked in review.inputs:
        for line in checked.lines:
            yield concise(line, context.terminal)


def concise(line: FindingLine, terminal: Terminal) -> str:
    """The line of a finding."""
    return f"{where(line)}: {painted_line(finding_label(line), terminal)}: {description(line)}"
