"""Reads a YAML file into a tree whose every key knows its line and column."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import Any, BinaryIO

import yaml
from msgspec import Struct

from tuner.errors import InputError, Location
from tuner.inputs.tree import Path, Tree
from tuner.inputs.yaml_nodes import TreeBuilder, loader
from tuner.language import _
from tuner.units import MIB

MAX_BYTES = MIB  # a composed configuration of a trainer has 0.04 MiB
MAX_DEPTH = 64
STANDARD_INPUT = "-"

_PACKAGE = re.compile(r"^#\s*@package\s+(\S+)", re.M)


class Document(Struct, frozen=True, kw_only=True):
    """One file: its tree and where each key of it stands."""

    source: str
    tree: Tree
    locations: dict[Path, Location]  # of keys, and of the elements of lists by their index
    package: str | None = None  # what Hydra's header "# @package NAME" says
    printed: bool = False  # by the trainer when it started: every setting, interpolations resolved

    def location(self, *path: str) -> Location:
        """Where a key stands; the file itself for a path that it does not hold."""
        return self.locations.get(path, Location(source=self.source))


def read_yaml(file: FilePath) -> Document:
    """Read one YAML file, or standard input for ``-``. An empty one gives an empty tree.

    Raises:
        InputError: the file cannot be read, is not YAML, is too large, or its top is not a mapping.
    """
    return parse_yaml(read_text(file), source=str(file))


def parse_yaml(text: str, *, source: str) -> Document:
    """Read YAML text; ``source`` names it in locations.

    Raises:
        InputError: see :func:`read_yaml`.
    """
    top = _compose(text, source)
    builder = TreeBuilder(source)
    content = None if top is None else builder.value(top, (), top)
    if top is not None and content is not None and not isinstance(content, dict):
        kind = _("a list") if isinstance(content, list) else _("a single value")
        raise InputError(
            _("the file holds {kind}; a configuration is a mapping of keys to values").format(kind=kind),
            location=builder.location(top),
            hint=_("write it as 'section:' with indented 'key: value' lines"),
        )
    header = _PACKAGE.search(text)
    package = header[1] if header else None
    return Document(source=source, tree=content or {}, locations=builder.locations, package=package)


def read_text(file: FilePath) -> str:
    """The text of a file, or of standard input where it is ``-``.

    Raises:
        InputError: it is no file of text, or too large.
    """
    with opened(file) as stream:
        return text_of(stream.read(MAX_BYTES + 1), file)


@contextmanager
def opened(file: FilePath) -> Iterator[BinaryIO]:
    """A file to read, or standard input where it is ``-``.

    Raises:
        InputError: it cannot be opened or read.
    """
    where = Location(source=str(file))
    try:
        if file.is_dir():
            raise InputError(_("is a directory"), location=where, hint=_("give the YAML file in it"))
        if str(file) == STANDARD_INPUT:
            yield sys.stdin.buffer
        else:
            with file.open("rb") as stream:
                yield stream
    except FileNotFoundError:
        raise InputError(_("there is no such file"), location=where, hint=_("check the path")) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            _("the file cannot be read: {reason}").format(reason=reason), location=where
        ) from None


def text_of(data: bytes, file: FilePath) -> str:
    """What was read of a file, at most one byte above the limit, as text.

    Raises:
        InputError: it is no text in UTF-8, or above the limit.
    """
    where = Location(source=str(file))
    if len(data) > MAX_BYTES:
        hint = _("a trainer's whole configuration has about 0.04 MiB: is this the right file?")
        raise InputError(
            _("the file is larger than the limit of {max} MiB").format(max=MAX_BYTES // MIB),
            location=where,
            hint=hint,
        )
    return _decode(data, where)


def _decode(data: bytes, where: Location) -> str:
    if b"\0" in data:
        before = data[: data.index(b"\0")]
        place = Location(source=where.source, line=before.count(b"\n") + 1)
        raise InputError(
            _("the file is binary, not text"), location=place, hint=_("give a YAML file in UTF-8")
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        place = Location(
            source=where.source,
            line=before.count(b"\n") + 1,
            column=len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1,
        )
        message = _("byte 0x{data:02x} is not UTF-8").format(data=data[error.start])
        raise InputError(message, location=place, hint=_("save the file as UTF-8")) from None


def _compose(text: str, source: str) -> yaml.Node | None:
    try:
        _check_depth(text)
        return yaml.compose(text, loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Location(source=source)
        if mark is not None:
            place = Location(source=source, line=mark.line + 1, column=mark.column + 1)
        problem = f"{error.context}, {error.problem}" if error.context else f"{error.problem}"
        raise InputError(
            _("this is not valid YAML: {problem}").format(problem=problem),
            location=place,
            hint=_hint(problem, text, place),
        ) from None
    except yaml.reader.ReaderError as error:
        raise _unreadable(text, error, source) from None
    except yaml.YAMLError as error:
        raise InputError(
            _("this is not valid YAML: {error}").format(error=error), location=Location(source=source)
        ) from None


def _check_depth(text: str) -> None:
    """Refuse nesting that would exhaust the stack of a recursive composer."""
    depth = 0
    for event in yaml.parse(text, loader()):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                mark: Any = event.start_mark
                raise yaml.MarkedYAMLError(
                    problem=_("nested deeper than {max_depth} levels").format(max_depth=MAX_DEPTH),
                    problem_mark=mark,
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _hint(problem: str, text: str, place: Location) -> str:
    if "expected a single document" in problem:
        return _("give one configuration per file, without a second '---'")
    if "nested deeper" in problem:
        return _("give a trainer's configuration")
    line = (text.splitlines() or [""])[min(place.line or 1, len(text.splitlines()) or 1) - 1]
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return _("indent with spaces; YAML allows no tabs there")
    return _("check the indentation, the colons and the quotes of this line and the one before")


def _unreadable(text: str, error: yaml.reader.ReaderError, source: str) -> InputError:
    position = error.position if isinstance(error.position, int) else 0
    before = text[:position]
    place = Location(source=source, line=before.count("\n") + 1, column=len(before) - before.rfind("\n"))
    return InputError(
        _("the file holds a control character"), location=place, hint=_("give a YAML file in UTF-8")
    )
