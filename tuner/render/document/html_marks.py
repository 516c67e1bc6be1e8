"""Marked texts in HTML: what is strong, what is code, what has a colour, where a link leads."""

from collections.abc import Sequence
from html import escape

from tuner.render.document.marks import Mark, Medium, linked, pieces

_TAGS = {
    Mark.STRONG: ("<strong>", "</strong>"),
    Mark.CODE: ("<code>", "</code>"),
    Mark.GOOD: ('<strong class="good">', "</strong>"),
    Mark.DOUBTFUL: ('<strong class="doubtful">', "</strong>"),
    Mark.BAD: ('<strong class="bad">', "</strong>"),
    Mark.DIM: ('<span class="dim">', "</span>"),
    Mark.ERROR: ('<span class="error">', "</span>"),
    Mark.WARNING: ('<span class="warning">', "</span>"),
    Mark.ADVICE: ('<span class="advice">', "</span>"),
}
_SCHEMES = ("https://", "http://")  # an address of any other kind may do something


def inline(text: str) -> str:
    """A marked text as HTML; nothing in it is markup of its own."""
    return "".join(_piece(piece, marks) for piece, marks in pieces(text, Medium.PAGE))


def _piece(text: str, marks: Sequence[Mark]) -> str:
    seen, address = linked(text) if Mark.LINK in marks else (text, "")
    shown = escape(seen)
    if address.startswith(_SCHEMES):
        shown = f'<a href="{escape(address)}">{shown}</a>'
    for mark in reversed(marks):
        opening, closing = _TAGS.get(mark, ("", ""))
        shown = f"{opening}{shown}{closing}"
    return shown
