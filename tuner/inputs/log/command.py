"""The command that started a job, where its log or a report of it holds the command."""

import re
from collections.abc import Sequence

from msgspec import Struct

from tuner.inputs.log.lines import LogLine
from tuner.out_of_memory.printed_lines import cleaned

_STARTERS = r"(?:\w+=\S* )*(?:nohup )?(?:\S*/)?(?:python3?|torchrun|ray|accelerate|uv) "
_ECHOED = re.compile(rf"\+{{1,3}} (?={_STARTERS})")  # set -x
# As it was typed, perhaps behind a prompt; behind a mere # it is a comment.
_TYPED = re.compile(rf"\s{{0,40}}(?:\$ |\S{{1,80}}(?: \S{{1,80}})?[$#] )?(?={_STARTERS})")
_NAMES = ("python", "torchrun", "ray ", "accelerate ", "uv ")  # one of which a command begins with
_MOST_TRIED = 50  # typed ones without overrides
_MOST_LINES = 1000
_MOST_CHARACTERS = 512 * 1024


class StartingCommand(Struct, frozen=True, kw_only=True):
    """A command with overrides, as a shell reads it."""

    text: str  # as many lines as it has in the log
    line: int | None  # its first; None behind what was not read
    index: int  # of its first among the lines


def last_command(lines: Sequence[LogLine]) -> StartingCommand | None:
    """The last command with overrides that a shell echoed, else that somebody typed or copied."""
    return _last_echoed(lines) or _last_typed(lines)


def _last_echoed(lines: Sequence[LogLine]) -> StartingCommand | None:
    for index in reversed(range(len(lines))):
        raw = lines[index].text
        if raw.lstrip("\x1b[0m").startswith("+") and "=" in raw:
            text = _cleaned_text(raw)
            prompt = _ECHOED.match(text)
            if prompt is not None:
                return StartingCommand(text=text[prompt.end() :], line=lines[index].number, index=index)
    return None


def _last_typed(lines: Sequence[LogLine]) -> StartingCommand | None:
    tried = 0
    python, torchrun, ray, accelerate, uv = _NAMES
    for index in reversed(range(len(lines))):
        raw = lines[index].text
        if not (python in raw or torchrun in raw or ray in raw or accelerate in raw or uv in raw):
            continue
        text = _cleaned_text(raw)
        prompt = _TYPED.match(text)
        if prompt is None:
            continue
        command = _continued(text[prompt.end() :], lines, index)
        if any("." in word.partition("=")[0] for word in command.split() if "=" in word):
            return StartingCommand(text=command, line=lines[index].number, index=index)
        tried += 1
        if tried >= _MOST_TRIED:
            break
    return None


def _continued(first: str, lines: Sequence[LogLine], index: int) -> str:
    """A command with the lines that it goes on in."""
    parts, characters = [first], len(first)
    for line in lines[index + 1 : index + _MOST_LINES]:
        characters += len(line.text)
        if not parts[-1].endswith("\\") or characters > _MOST_CHARACTERS:
            break
        parts.append(_cleaned_text(line.text))
    return "\n".join(parts)


def _cleaned_text(raw: str) -> str:
    return cleaned(raw, longest=len(raw)).text
