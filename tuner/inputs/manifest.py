"""Launches inside of files for other programs: a job of Kubernetes, Ray or SkyPilot, a notebook.

What such a file has a shell or a program run is put together as a script whose lines are those of the file,
and followed as any script is.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from msgspec import Struct

from tuner.inputs.tree import Path
from tuner.inputs.yaml_file import Document

_STARTS = re.compile(r"\b(?:python[\d.]*|torchrun|deepspeed)\s")
_OVERRIDE = re.compile(r"(?<![\w.])\+{0,2}[A-Za-z_]\w*(?:\.\w+)+=")
_BLOCK = re.compile(r"[|>][-+\d]*\s*(?:#.*)?$")  # behind a key: the text begins on the next line
_WORDS = ("entrypoint", "command", "args")  # of one program, in this order
_ENVIRONMENTS = ("env", "envs", "environment")
_NAME = re.compile(r"[A-Za-z_]\w*")
_CELL_MAGIC = re.compile(r"%%(?:bash|sh)\b.*|!", re.ASCII)
_DEEPEST = 30
#: Keys that such a file has side by side, and no trainer's configuration.
_OF_OTHERS = {
    "SkyPilot": {"resources", "run"},
    "Kubernetes": {"apiVersion", "kind"},
}


class Piece(Struct, frozen=True, kw_only=True):
    """Text of a script, and the line of the file where it begins."""

    line: int
    text: str


def script_in(document: Document, text: str) -> str | None:
    """The script that a file for another program has run; None where it starts no program with overrides.

    Args:
        document: the file, read.
        text: of the file.
    """
    lines = text.splitlines()
    commands = [command for command in _commands(document, lines) if is_launch(command)]
    if not commands:
        return None
    environment = "".join(f"export {name}={value}; " for name, value in _variables(document.tree, 0))
    return environment + laid_out(sorted(commands, key=lambda command: command[0].line))


def names_other_job(tree: Any) -> str:
    """What a file is that another program reads to start something; empty for any other file."""
    keys = {str(key) for key in tree} if isinstance(tree, Mapping) else set()
    return next((name for name, own in _OF_OTHERS.items() if own <= keys), "")


def launching_document(text: str) -> str:
    """The first of a file's YAML documents that may start a program, on the lines where it stands.

    The text itself where there is only one, or none of them does.
    """
    lines = text.split("\n")
    borders = [-1, *(number for number, line in enumerate(lines) if line.rstrip() == "---"), len(lines)]
    for begin, end in pairwise(borders):
        own = "\n".join(lines[begin + 1 : end])
        if len(borders) > 2 and _STARTS.search(own) is not None and _OVERRIDE.search(own) is not None:
            return "\n" * (begin + 1) + own
    return text


def is_launch(command: list[Piece]) -> bool:
    """Whether a command starts a program of Python with an override."""
    whole = " ".join(piece.text for piece in command)
    return _STARTS.search(whole) is not None and _OVERRIDE.search(whole) is not None


def _commands(document: Document, lines: list[str]) -> Iterator[list[Piece]]:
    """All that the file may have run, each as the pieces of one command or one text."""
    for path, value in _nodes(document.tree, (), 0):
        if isinstance(value, Mapping):
            words = list(_words(document, path, value, lines))
            if words:
                yield words
            source = value.get("source")
            if isinstance(source, list):  # a cell of a notebook
                yield list(_cell(document, (*path, "source"), source))
        elif isinstance(value, str) and "\n" in value and not {*path[-2:]} & {*_WORDS, "source"}:
            yield [_piece(document, path, value, lines)]


def _nodes(value: Any, path: Path, depth: int) -> Iterator[tuple[Path, Any]]:
    if depth > _DEEPEST:
        return
    yield path, value
    below: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        below = value.items()
    elif isinstance(value, list):
        below = enumerate(value)
    for key, inner in below:
        yield from _nodes(inner, (*path, str(key)), depth + 1)


def _words(document: Document, path: Path, node: Mapping[str, Any], lines: list[str]) -> Iterator[Piece]:
    """A program and its arguments, as a container, a sweep or an editor's debugger has them."""
    module = node.get("module")
    if isinstance(module, str):
        line = document.location(*path, "module").line or 1
        yield Piece(line=line, text=f"python -m {shlex.quote(module)}")
    for name in _WORDS:
        value, place = node.get(name), (*path, name)
        if isinstance(value, str):
            yield _piece(document, place, value, lines)
        elif isinstance(value, list):
            for index, word in enumerate(value):
                if isinstance(word, str):
                    piece = _piece(document, (*place, str(index)), word, lines)
                    yield Piece(line=piece.line, text=shlex.quote(word))


def _piece(document: Document, path: Path, value: str, lines: list[str]) -> Piece:
    line = document.location(*path).line or 1
    behind = line <= len(lines) and _BLOCK.search(lines[line - 1]) is not None
    return Piece(line=line + (1 if behind else 0), text=value)


def _cell(document: Document, path: Path, source: list[Any]) -> Iterator[Piece]:
    """The lines of a cell without a notebook's own marks."""
    for index, line in enumerate(source):
        if isinstance(line, str):
            place = document.location(*path, str(index)).line or 1
            yield Piece(line=place, text=_CELL_MAGIC.sub("", line.strip("\n"), count=1) + "\n")


def _variables(value: Any, depth: int) -> Iterator[tuple[str, str]]:
    """Variables of the environment that the file sets, quoted for a shell."""
    if depth > _DEEPEST or not isinstance(value, Mapping | list):
        return
    for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
        if key in _ENVIRONMENTS:
            pairs = inner.items() if isinstance(inner, Mapping) else _named(inner)
            for name, one in pairs:
                if isinstance(one, str | int | float) and _NAME.fullmatch(str(name)):
                    yield str(name), on_one_line(str(one))
        else:
            yield from _variables(inner, depth + 1)


def _named(value: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of a list of ``{name: ..., value: ...}``, as Kubernetes has it."""
    for one in value if isinstance(value, list) else ():
        if isinstance(one, Mapping):
            yield str(one.get("name")), one.get("value")


def on_one_line(value: str) -> str:
    """A value quoted for a shell, without an end of a line: what stands behind it keeps its own line."""
    if "\n" not in value:
        return shlex.quote(value)
    escaped = value.replace("\\", r"\\").replace("'", r"\'").replace("\n", r"\n")
    return f"$'{escaped}'"


def laid_out(commands: list[list[Piece]]) -> str:
    """The commands as one text, every piece on its line as far as the ones before it leave room."""
    written: list[str] = []
    line = 1
    for command in commands:
        for number, piece in enumerate(command):
            down = max(0, piece.line - line)
            continued = number > 0 and not written[-1].endswith("\n")
            if down:
                written.append((" \\\n" if continued else "\n") * down)
            elif written:
                written.append(" " if continued else "")
            written.append(piece.text)
            line += down + piece.text.count("\n")
        written.append("\n")
        line += 1
    return "".join(written)
