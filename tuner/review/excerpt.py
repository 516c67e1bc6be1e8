"""Shows where in an input a finding is about: the line as it stands there, and the value in it.

Checks know where a key stands. Where another value is proposed, a reader looks for the value behind the key.
It is found here in the text of the line, so that only inputs with findings are read a second time.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from tuner.errors import InputError, Location
from tuner.files import is_there, read_bytes
from tuner.inputs.named_inputs import is_shell
from tuner.inputs.overrides import COMMAND_LINE
from tuner.inputs.secrets import has_secret
from tuner.inputs.settings import Settings
from tuner.inputs.user_input import UserInput
from tuner.override_text import DELETES, override_key
from tuner.review.input_findings import Excerpt, FindingLine
from tuner.review.value_span import value_span
from tuner.units import MIB

_MOST_BYTES = 16 * MIB  # above it is only the log of a run, whose lines are not shown
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # what ends a line in YAML 1.1
_SHELL_BREAK = re.compile("\r?\n")
# Beside a value: a key of YAML or an override, which are judged by themselves, and what starts a program.
_BESIDE = re.compile(
    r"[-{}\[\],|>\\:]+|[\w.'\"-]+:|[{\[]*[\w.-]+:?[}\],]*|\$[\w@*{}]+|-m|[A-Z]\w*=.*"
    r"|[+~]{0,2}[\w/@.-]+\.[\w/@.-]+=.*|~[\w/@.-]+"
)
_LONGEST = 400  # characters of a line that is shown


def with_excerpts(
    lines: Iterable[FindingLine], given: UserInput, settings: Settings, unshown: frozenset[int]
) -> tuple[FindingLine, ...]:
    """Findings with the text that they are about; their column is that of a value that is to be another one.

    Args:
        lines: findings with the places of their keys.
        given: the input that they are on.
        settings: what it comes to.
        unshown: lines of it that may hold a secret.
    """
    typed = {
        argument.location.line: argument.text
        for argument in given.arguments
        if argument.location.source == COMMAND_LINE and argument.location.line is not None
    }
    held = {given.source: given.text} if given.text else {}
    read = cache(partial(_lines, held))
    screen = _Screen(given.source, settings, unshown, is_shell(given.source, given.text))
    return tuple(_with_excerpt(_with_hidden_fix(line, given, unshown), typed, read, screen) for line in lines)


class _Screen(NamedTuple):
    """What must not be repeated of an input."""

    source: str
    settings: Settings
    unshown: frozenset[int]
    shell: bool  # whether it is a script

    def hides(self, line: FindingLine, value: str) -> bool:
        """Whether the value at which a finding stands may be a secret."""
        sets = bool(line.key) and not line.section and not value.lstrip("'\"").startswith("~")
        return sets and self.settings.shown(line.key, value) != value

    def part(self, line: FindingLine, text: str, start: int, end: int) -> tuple[int, int] | None:
        """What is shown of a line around the value; None for all of it."""
        place = line.location
        own = place.source == self.source and place.line in self.unshown
        surroundings = text[end:] if not self.shell else f"{text[:start]} {text[end:]}"
        if not own and (_is_plain(surroundings) if self.shell else "#" not in surroundings):
            return None
        return min(start, (place.column or 1) - 1), end


def _is_plain(text: str) -> bool:
    """Whether what stands beside a value is no comment and no word of another program."""
    return all(_BESIDE.fullmatch(word.strip("'\"")) for word in text.split() if word.strip("'\""))


def _with_hidden_fix(line: FindingLine, given: UserInput, unshown: frozenset[int]) -> FindingLine:
    if line.fix is None:
        return line
    data = given.text.encode("utf-8", "surrogatepass") if unshown else b""
    touched = {
        data.count(b"\n", 0, place) + 1
        for edit in line.fix.edits
        if edit.start < edit.end or data[: edit.start].rpartition(b"\n")[2]  # else it puts lines between
        for place in (edit.start, max(edit.start, edit.end - 1))
    }
    hides = line.finding.hides_value or not unshown.isdisjoint(touched)
    return replace(line, fix=replace(line.fix, hides=True)) if hides else line


def _with_excerpt(
    line: FindingLine, typed: Mapping[int, str], read: Callable[[str], Sequence[str]], screen: _Screen
) -> FindingLine:
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
    if screen.hides(line, text[start:end]):
        return line
    if not _sets_its_key(line):  # it is about the key as much as about the value
        start = place.column - 1
    if line.section and text.startswith(line.section, start):  # the program that a script starts
        end = start + len(line.section)
    return replace(
        line,
        location=Location(source=place.source, line=place.line, column=start + 1),
        excerpt=Excerpt(text=text, start=start, end=end, shown=screen.part(line, text, start, end)),
    )


def _sets_its_key(line: FindingLine) -> bool:
    """Whether another value is proposed for the key at which the finding stands."""
    return any(
        override_key(override) == line.key and not override.startswith(DELETES) for override in line.overrides
    )


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
