"""Comments by which a file says that findings of it are to be ignored, and why."""

import re
from collections.abc import Iterator
from difflib import get_close_matches

from msgspec import Struct

from tuner.errors import Location

_SAID = re.compile(r"#\s*tuner:\s*(?P<verb>[\w-]+)\s*(?:\[(?P<words>[^\]\n]*)\])?(?P<rest>[^\n]*)")
MARK = re.compile(r"#\s*tuner:")
_LINE, _FILE = "ignore", "file-ignore"
_BEFORE_A_REASON = " \t\r:-\u2013\u2014"


class Comment(Struct, frozen=True, kw_only=True):
    """A comment as it stands in a file, from its ``#`` on, and the lines that it speaks of."""

    text: str
    place: Location
    first: int  # line; of one alone on its line, where what stands below it begins
    last: int  # and ends; before the first where nothing stands below


class Suppression(Struct, frozen=True, kw_only=True):
    """A comment that ignores findings."""

    place: Location
    words: tuple[str, ...]  # codes and names; none where it names no rule
    reason: str
    whole_file: bool
    first: int
    last: int
    instead: str = ""  # the word that was meant, where there is none such as stands there

    def covers(self, place: Location) -> bool:
        """Whether it speaks of a place in its file."""
        return self.whole_file or self.first <= (place.line or 1) <= self.last


def suppressions(comments: Iterator[Comment]) -> tuple[Suppression, ...]:
    """The comments of a file that ignore findings, or seem to be meant so."""
    return tuple(it for comment in comments if (it := _suppression(comment)) is not None)


def _suppression(comment: Comment) -> Suppression | None:
    match = _SAID.search(comment.text)
    if match is None:
        return None
    verb = match["verb"].lower()
    instead = ""
    if verb not in (_LINE, _FILE):
        near = get_close_matches(verb, (_LINE, _FILE), 1)
        if not near:
            return None  # about something else
        instead = near[0]
    return Suppression(
        place=comment.place,
        words=tuple(word.strip() for word in (match["words"] or "").split(",") if word.strip()),
        reason=match["rest"].strip(_BEFORE_A_REASON),
        whole_file=verb == _FILE,
        first=comment.first,
        last=comment.last,
        instead=instead,
    )
