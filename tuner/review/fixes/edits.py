"""Edits of a file's bytes: put together, turned from characters into bytes, and applied."""

from collections.abc import Iterable, Sequence

from tuner.language import _
from tuner.review.checked import Edit

BOM = b"\xef\xbb\xbf"


class CannotEditError(Exception):
    """Why a file cannot be edited so that it says what an override says; the text is for the user."""


class Splice:
    """A piece of a decoded text and what stands there afterwards, in characters of the text."""

    __slots__ = ("end", "new", "start")

    def __init__(self, start: int, end: int, new: str) -> None:
        self.start, self.end, self.new = start, end, new


def edits_of(data: bytes, text: str, splices: Iterable[Splice]) -> tuple[Edit, ...]:
    """Splices of a YAML file's text as edits of its bytes; those that touch become one.

    Args:
        data: the file.
        text: what it says, without the mark of its byte order.
        splices: in any order; of those at one place the first comes first.

    Raises:
        CannotEditError: two of them change the same characters.
    """
    shift = len(BOM) if data.startswith(BOM) else 0

    def byte(index: int) -> int:
        return shift + len(text[:index].encode())

    return joined(Edit(start=byte(item.start), end=byte(item.end), text=item.new) for item in splices)


def joined(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Edits in the order of the file; those that touch become one.

    Raises:
        CannotEditError: two of them change the same bytes.
    """
    together: list[Edit] = []
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        last = together[-1] if together else None
        if last is None or edit.start > last.end:
            together.append(edit)
        elif edit.start == last.end:
            together[-1] = Edit(start=last.start, end=edit.end, text=last.text + edit.text)
        else:
            raise CannotEditError(_("two changes overlap"))
    return tuple(together)


def applied(data: bytes, edits: Sequence[Edit]) -> bytes:
    """The file with its edits, which are in its order and do not overlap."""
    pieces: list[bytes] = []
    at = 0
    for edit in edits:
        pieces += [data[at : edit.start], edit.text.encode()]
        at = edit.end
    return b"".join([*pieces, data[at:]])
