"""Brace expansion: ``{a,b}``, ``{1..9}``, ``pre{x,y{1..3}}post``, on a word as it is written.

Source: GNU Bash manual, "Brace Expansion": it comes before every other expansion and works on the text
alone; what stands in quotes or in an expansion of its own is no part of it.
"""

import re
from collections.abc import Iterator
from itertools import islice

_MOST_DIGITS = 18  # of the ends of {1..9}
_MOST_WORDS = 10_000
_DEEPEST = 20
_NUMBERS = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d+))?")
_OPAQUE = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|`[^`]*`|\$?\$(?=[{(])""", re.DOTALL)
_CLOSING = {"{": "}", "(": ")"}
_MAY_EXPAND = re.compile(r"\{.*(?:,|\.\.).*\}", re.DOTALL)


def brace_words(word: str) -> list[str]:
    """The words that brace expansion makes of one; the word alone where it makes none."""
    return _expanded(word, 0) if _MAY_EXPAND.search(word) else [word]


def _expanded(word: str, depth: int) -> list[str]:
    start = 0
    while depth < _DEEPEST and (opening := _opening(word, start)) is not None:
        inside = _inside(word, opening)
        if inside is not None:
            end, parts = inside
            middles = _sequence(parts[0]) if len(parts) == 1 else _expansions(parts, depth)
            if middles:
                rest = _expanded(word[end + 1 :], depth + 1)
                before = word[:opening]
                words = (f"{before}{middle}{behind}" for middle in middles for behind in rest)
                return list(islice(words, _MOST_WORDS))
        start = opening + 1
    return [word]


def _expansions(parts: list[str], depth: int) -> list[str]:
    words = (word for part in parts for word in _expanded(part, depth + 1))
    return list(islice(words, _MOST_WORDS))


def _plain(word: str, start: int) -> Iterator[tuple[int, str]]:
    """The characters outside quotes and expansions, with their places."""
    at = start
    while at < len(word):
        opaque = _OPAQUE.match(word, at)
        if opaque is None:
            yield at, word[at]
            at += 1
        elif opaque[0].endswith("$"):
            at = _behind(word, opaque.end())
        else:
            at = opaque.end()


def _behind(word: str, opening: int) -> int:
    """Where the expansion ends whose bracket stands at a place."""
    closing, depth = _CLOSING[word[opening]], 0
    for at in range(opening, len(word)):
        depth += (word[at] == word[opening]) - (word[at] == closing)
        if not depth:
            return at + 1
    return len(word)


def _opening(word: str, start: int) -> int | None:
    return next((at for at, character in _plain(word, start) if character == "{"), None)


def _inside(word: str, opening: int) -> tuple[int, list[str]] | None:
    """Where a brace closes, and what its commas part; None where it does not close."""
    depth, parts, begin = 0, [], opening + 1
    for at, character in _plain(word, opening):
        if character == "{":
            depth += 1
        elif character == "," and depth == 1:
            parts.append(word[begin:at])
            begin = at + 1
        elif character == "}":
            depth -= 1
            if not depth:
                return at, [*parts, word[begin:at]]
    return None


def _sequence(inside: str) -> list[str]:
    """``1..9``, ``01..09``, ``1..9..2``, ``a..e``; nothing for what is none of these."""
    match = _NUMBERS.fullmatch(inside)
    if match is not None and max(map(len, match.groups(""))) <= _MOST_DIGITS:
        padded = any(re.match(r"-?0\d", end) for end in match.groups("")[:2])
        width = max(map(len, match.groups("")[:2])) if padded else 0
        return [f"{number:0{width}d}" for number in _steps(int(match[1]), int(match[2]), match[3])]
    match = _LETTERS.fullmatch(inside)
    if match is not None and len(match[3] or "") <= _MOST_DIGITS:
        return [chr(code) for code in _steps(ord(match[1]), ord(match[2]), match[3])]
    return []


def _steps(first: int, last: int, step: str | None) -> range:
    width = abs(int(step or 1)) or 1
    numbers = range(first, last + 1, width) if first <= last else range(first, last - 1, -width)
    return numbers[:_MOST_WORDS]
