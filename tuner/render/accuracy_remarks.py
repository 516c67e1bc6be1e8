"""What there is to know of how runs were read: remarks on them, and lines that could not be read."""

from collections.abc import Iterator, Sequence

from tuner.accuracy import TimedFile
from tuner.language import _
from tuner.render.terminal import Terminal, plain


def remarks_texts(files: Sequence[TimedFile], terminal: Terminal) -> Iterator[str]:
    """A part for the remarks and one for the lines; none where there is nothing to say."""
    remarks = [f"{plain(one.case)}: {plain(one.text)}" for file in files for one in file.remarks]
    if remarks:
        yield _listed(_("Of these runs"), remarks, terminal)
    unread = [
        f"{plain(file.source)}:{one.line}: {plain(one.reason)}" for file in files for one in file.unread
    ]
    if unread:
        yield _listed(_("Lines that could not be read"), unread, terminal)


def _listed(title: str, entries: Sequence[str], terminal: Terminal) -> str:
    rows = [terminal.prose(entry, indent="    ", first="  ") for entry in entries]
    return "\n".join([terminal.style(title, "bold"), *rows])
