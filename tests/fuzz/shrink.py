"""Makes a failing input smaller as long as it fails in the same way."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.case import Case

_MOST_RUNS = 300


def shrunk(made: Case, fails: Callable[[Case], bool]) -> Case:
    """A smaller case that fails too; the case itself where none does."""
    runs = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(made):
            runs += 1
            if runs > _MOST_RUNS:
                return made
            if fails(candidate):
                made, smaller = candidate, True
                break
    return made


def _smaller(made: Case) -> Iterator[Case]:
    for words in _shorter(list(made.words[1:])):
        yield replace(made, words=(made.words[0], *words))
    for name, content in made.files.items():
        for text in _shorter_text(content):
            yield replace(made, files={**made.files, name: text})
    for text in _shorter_text(made.stdin):
        yield replace(made, stdin=text)
    for place, word in enumerate(made.words):
        for text in _shorter_text(word.encode("utf-8", "surrogateescape")):
            piece = text.decode("utf-8", "surrogateescape")
            yield replace(made, words=(*made.words[:place], piece, *made.words[place + 1 :]))


def _shorter_text(content: bytes) -> Iterator[bytes]:
    """The text without some of its lines; without some of its characters where it is one line."""
    lines = content.splitlines(keepends=True)
    pieces = lines if len(lines) > 1 else re.findall(rb"\w+|\W", content) if len(content) > 40 else []
    yield from (b"".join(shorter) for shorter in _shorter(pieces))


def _shorter(pieces: list) -> Iterator[list]:
    """A list without one of its halves, quarters and so on."""
    size = (len(pieces) + 1) // 2
    while size and pieces:
        for start in range(0, len(pieces), size):
            yield pieces[:start] + pieces[start + size :]
        size = 0 if size == 1 else (size + 1) // 2
