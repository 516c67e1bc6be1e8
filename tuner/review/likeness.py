"""Puts inputs that are alike next to each other, so that what is worked out for one serves the next.

Thousands of configurations are mostly variants of a few. A process remembers what it has counted of the last
proposals and passes: judged one after the other, variants of one job find there what they share.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from tuner.files import STANDARD_INPUT
from tuner.inputs.several import Input

_NUMBERS = re.compile(rb"[0-9]+")
_COMPARED = 4096  # first bytes of an input: enough to tell variants of one job from other jobs


def by_likeness(inputs: Sequence[Input]) -> list[int]:
    """The places of the inputs in an order in which alike ones follow each other.

    Alike are those with the same text but for its numbers, and next to these whose texts begin alike.
    """
    keys = [_key(given) for given in inputs]
    return sorted(range(len(inputs)), key=keys.__getitem__)


def _key(given: Input) -> tuple[bytes, bytes]:
    text = _beginning(given)
    return _NUMBERS.sub(b"", text), text


def _beginning(given: Input) -> bytes:
    """The first bytes of a file; nothing of what is no plain file or cannot be read, which is told later."""
    if given.pasted or given.config == STANDARD_INPUT:
        return b""
    file = Path(given.config)
    try:
        if not file.is_file():
            return b""
        with file.open("rb") as stream:
            return stream.read(_COMPARED)
    except (OSError, ValueError):
        return b""
