"""Reads a YAML file into a tree whose every key knows its line and column."""

import re
from pathlib import Path as FilePath
from typing import Any

import yaml
from msgspec import Struct

from tuner.errors import InputError, Location
from tuner.files import expect_within, opened
from tuner.inputs.tree import Path, Tree
from tuner.inputs.yaml_nodes import TreeBuilder, loader
from tuner.language import _
from tuner.nesting import TooLargeError, expect_shallow
from tuner.units import MIB

MAX_BYTES = MIB  # a composed configuration of a trainer has 0.04 MiB
_MOST_SCANNED = MIB // 4  # characters; PyYAML's own scanner takes a second or two for so many

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


def parse_list(text: str, *, source: str) -> tuple[list[Any], Document] | None:
    """The elements of YAML text whose top is a list; None where it is none.

    The document beside them has the location of each by its number.

    Raises:
        InputError: see :func:`read_yaml`.
    """
    top = _compose(text, source)
    if not isinstance(top, yaml.SequenceNode):
        return None
    builder = TreeBuilder(source)
    elements = builder.value(top, (), top)
    return elements, Document(source=source, tree={}, locations=builder.locations)


def read_text(file: FilePath) -> str:
    """The text of a file, or of standard input where it is ``-``.

    Raises:
        InputError: it is no file of text, or too large.
    """
    with opened(file, most=MAX_BYTES + 1, of_folder=of_folder()) as (data, _rest):
        return text_of(data, file)


def of_folder() -> str:
    """What to do where a folder was given in place of a file."""
    return _("give the YAML file in it")


def text_of(data: bytes, file: FilePath) -> str:
    """What was read of a file, at most one byte above the limit, as text.

    Raises:
        InputError: it is no text in UTF-8, or above the limit.
    """
    where = Location(source=str(file))
    too_large = _("a trainer's whole configuration has about 0.04 MiB: is this the right file?")
    expect_within(data, most=MAX_BYTES, where=where, too_large=too_large)
    return _decode(data, where)


def _decode(data: bytes, where: Location) -> str:
    if b"\0" in data:
        before = data[: data.index(b"\0")]
        place = Location(
            source=where.source,
            line=before.count(b"\n") + 1,
            column=len(before) - before.rfind(b"\n"),
        )
        hint = _("give a configuration, a launch script or a log in UTF-8")
        raise InputError(_("the file is binary, not text"), location=place, hint=hint)
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


def expect_tabs_as_hydra(text: str, *, source: str) -> None:
    """Refuse tabs between keys, values and comments.

    Hydra reads by PyYAML's own scanner, which takes none there; libyaml, by which files are read here, does.

    Raises:
        InputError: there is one.
    """
    if "\t" not in text or len(text) > _MOST_SCANNED:
        return
    try:
        for _token in yaml.scan(text, yaml.SafeLoader):
            pass
    except yaml.MarkedYAMLError as error:
        raise _no_yaml(error, text, source) from None


def _compose(text: str, source: str) -> yaml.Node | None:
    try:
        expect_shallow(text, loader())
        return yaml.compose(text, loader())
    except yaml.MarkedYAMLError as error:
        raise _no_yaml(error, text, source) from None
    except yaml.reader.ReaderError as error:
        raise _unreadable(text, error, source) from None
    except yaml.YAMLError as error:
        raise InputError(
            _("this is not valid YAML: {error}").format(error=error), location=Location(source=source)
        ) from None


def _no_yaml(error: yaml.MarkedYAMLError, text: str, source: str) -> InputError:
    mark = error.problem_mark or error.context_mark
    place = Location(source=source)
    if mark is not None:
        place = Location(source=source, line=mark.line + 1, column=mark.column + 1)
    if isinstance(error, TooLargeError):
        return InputError(f"{error.problem}", location=place, hint=_("give a trainer's configuration"))
    problem = f"{error.context}, {error.problem}" if error.context else f"{error.problem}"
    return InputError(
        _("this is not valid YAML: {problem}").format(problem=problem),
        location=place,
        hint=_hint(problem, text, place),
    )


def _hint(problem: str, text: str, place: Location) -> str:
    if "expected a single document" in problem:
        return _("give one configuration per file, without a second '---'")
    line = (text.splitlines() or [""])[min(place.line or 1, len(text.splitlines()) or 1) - 1]
    if "\t" in line[: len(line) - len(line.lstrip())] or line[(place.column or 1) - 1 :].startswith("\t"):
        return _("put spaces in place of the tab: Hydra's reader of YAML takes none there")
    return _("check the indentation, the colons and the quotes of this line and the one before")


def _unreadable(text: str, error: yaml.reader.ReaderError, source: str) -> InputError:
    position = error.position if isinstance(error.position, int) else 0
    before = text[:position]
    place = Location(source=source, line=before.count("\n") + 1, column=len(before) - before.rfind("\n"))
    return InputError(
        _("the file holds a control character"), location=place, hint=_("give a YAML file in UTF-8")
    )
