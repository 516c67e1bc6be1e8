"""Formulas of terms as text: its words, and the names in it.

A formula is written as on paper, in the names of its symbols: neighbours are multiplied
("T V b"), ``+``, ``-``, ``/`` and parentheses mean what they mean, and there are ``max``, ``min``,
``ceil`` and ``floor``. Nothing follows a division within one product, because "a / b c" is read in
two ways.
"""

import re
from functools import lru_cache

_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?)|([A-Za-z]\w*)|([-+*/(),]))")
_NAME = re.compile(r"[A-Za-z]\w*")
FUNCTIONS = ("max", "min", "ceil", "floor")


class FormulaError(ValueError):
    """A text that is no formula."""


@lru_cache(maxsize=1024)
def names(formula: str) -> tuple[str, ...]:
    """The symbols of a formula, each once, in the order of their first appearance."""
    return tuple([word for word in dict.fromkeys(_NAME.findall(formula)) if word not in FUNCTIONS])


@lru_cache(maxsize=1024)
def tokens(formula: str) -> tuple[str, ...]:
    """Numbers, names, operators and parentheses, with the unwritten products as ``*``."""
    words: list[str] = []
    position = 0
    text = formula.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise FormulaError(f"{formula!r}: {text[position:].strip()[:1]!r} is no part of a formula")
        word = match[match.lastindex or 0]
        if words and _ends_factor(words[-1]) and _begins_factor(word):
            words.append("*")
        words.append(word)
        position = match.end()
    return tuple(words)


def _begins_factor(word: str) -> bool:
    return word == "(" or word[0].isalnum()


def _ends_factor(word: str) -> bool:
    return word == ")" or (word[0].isalnum() and word not in FUNCTIONS)
