"""Values of variables, and what is known of one that has either of two."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from tuner.inputs.shell.values import Text, Unknown, text

_T = TypeVar("_T")

Array = tuple[Text | None, ...]
"""An indexed array; None where an index has no element."""

Value = Text | Array | Mapping[str, Text]
"""A scalar, an indexed array, or an associative one."""


def elements(array: Array) -> tuple[Text, ...]:
    """The elements that an array has, in their order."""
    return tuple(element for element in array if element is not None)


def either_value(one: Value | None, two: Value | None, unknown: Unknown) -> Value:
    """A value that is one of two: what both have stays known.

    Args:
        one: the value on one way, None where the variable is not set.
        two: the value on the other way.
        unknown: stands for what they differ in.
    """
    if isinstance(one, tuple) and isinstance(two, tuple):
        return either_array(one, two, unknown)
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        keys = dict.fromkeys((*one, *two))
        same = {key: one[key] for key in keys if one.get(key) == two.get(key)}
        return {key: same.get(key, Text((unknown,))) for key in keys}
    if isinstance(one, Text) and isinstance(two, Text):
        return _either_text(one, two, unknown)
    return Text((unknown,))


def either_array(one: Array, two: Array, unknown: Unknown) -> Array:
    """An array that is one of two: the elements that both begin and end with stay, the rest is open."""
    start, end = _common(one, two)
    return (*one[:start], Text((replace(unknown, several=True),)), *one[len(one) - end :])


def _either_text(one: Text, two: Text, unknown: Unknown) -> Text:
    """A string that is one of two: the words that both begin and end with stay, as of a list of arguments."""
    first, second = one.string, two.string
    if first is None or second is None:
        return Text((unknown,))
    words, others = first.split(" "), second.split(" ")
    start, end = _common(words, others)
    before = " ".join([*words[:start], ""])
    behind = " ".join(["", *words[len(words) - end :]])
    return text(before, replace(unknown, several=bool(start or end)), behind)


def _common(one: Sequence[_T], two: Sequence[_T]) -> tuple[int, int]:
    """How many elements two sequences begin with alike, and how many behind these they end with alike."""
    shorter = min(len(one), len(two))
    start = next((place for place in range(shorter) if one[place] != two[place]), shorter)
    rest = shorter - start
    end = next((place for place in range(rest) if one[-1 - place] != two[-1 - place]), rest)
    return start, end
