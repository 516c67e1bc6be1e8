"""Shows where in an input a finding is about: the line as it stands there, and the value in it.

Checks know where a key stands. Where another value is proposed, a reader looks for the value behind the key.
It is found here in the text of the line, so that only inputs with findings are read a second time.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from msgspec.structs import replace

from tuner.errors import InputError, Location
from tuner.files import is_there, read_bytes
from tuner.inputs.form import is_shell
from tuner.inputs.given import Given
from tuner.inputs.overrides import COMMAND_LINE
from tuner.inputs.secrets import has_secret
from tuner.review.checked import Excerpt, Line
from tuner.review.value_span import value_span
from tuner.units import MIB

_MOST_BYTES = 16 * MIB  # above it is only the log of a run, whose lines are not shown
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # what ends a line in YAML 1.1
_SHELL_BREAK = re.compile("\r?\n")
_LONGEST = 400  # characters of a line that is shown


def with_excerpts(lines: Iterable[Line], given: Given) -> tuple[Line, ...]:
    """Findings with the text that they are about; their column is that of a value that is to be another one.

    Args:
        lines: findings with the places of their keys.
        given: the input that they are on.
    """
    typed = {
        argument.location.line: argument.text
        for argument in given.arguments
        if argument.location.source == COMMAND_LINE and argument.location.line is not None
    }
    held = {given.source: given.text} if given.text else {}
    read = cache(partial(_lines, held))
    return tuple(_with_excerpt(line, typed, read) for line in lines)


def _with_excerpt(line: Line, typed: Mapping[int, str], read: Callable[[str], Sequence[str]]) -> Line:
    place = line.location
    if place.line is None or place.column is None:
        return line
    if place.source == COMMAND_LINE:
        text = typed.get(place.line, "")
    else:
        lines = read(place.source)
        text = lines[place.line - 1] if place.line <= len(lines) else ""
    if place.column > len(text) or len(text) > _LONGEST or has_secret(text):
        return line
    start, end = value_span(text, place.column - 1)
    if not _sets_its_key(line):  # it is about the key as much as about the value
        start = place.column - 1
    if line.section and text.startswith(line.section, start):  # the program that a script starts
        end = start + len(line.section)
    return replace(
        line,
        location=Location(source=place.source, line=place.line, column=start + 1),
        excerpt=Excerpt(text=text, start=start, end=end),
    )


def _sets_its_key(line: Line) -> bool:
    """Whether another value is proposed for the key at which the finding stands."""
    return any(override.lstrip("+").partition("=")[0] == line.key for override in line.overrides)


def _lines(held: Mapping[str, str], source: str) -> Sequence[str]:
    """The lines of a file; none of what is no file, or cannot be read again."""
    text = held.get(source) or _text(source)
    return (_SHELL_BREAK if is_shell(source, text) else _BREAK).split(text)


def _text(source: str) -> str:
    file = Path(source)
    if not is_there(file, Path.is_file):  # standard input, or a pipe
        return ""
    try:
        return read_bytes(file, most=_MOST_BYTES).decode("utf-8-sig")
    except (InputError, UnicodeDecodeError):
        return ""
