"""The entries of a ``defaults:`` list as Hydra reads them: which file each names, below which package."""

import posixpath
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from tuner.errors import InputError, Location
from tuner.inputs.tree import Path, dotted, split_key
from tuner.inputs.yaml_file import Document
from tuner.language import _

SELF = "_self_"
_GLOBAL, _HERE, _GROUP = "_global_", "_here_", "_group_"
_OVERRIDE, _OPTIONAL = "override ", "optional "


class DefaultsEntry(Struct, frozen=True, kw_only=True):
    """A file that a list names: by itself (``folder/file@package``), or chosen (``group@package: file``)."""

    group: str | None  # as it is written, without the package; None of a file that is named by itself
    folder: str  # of the file; the group of a choice
    name: str | None  # of the file in it, without ``.yaml``; None where nothing is chosen
    package: str | None  # as it is written; None where none is
    absolute: bool  # the folder is meant from the top, and not from the file that has the list
    place: Location
    optional: bool = False  # nothing is said where there is no such file
    overrides: bool = False  # chooses anew for an entry of another list
    one_of_list: bool = False  # its choice stands in a list, which Hydra takes as files that are named

    @property
    def text(self) -> str:
        """As the list has it, for a message."""
        at = "" if self.package is None else f"@{self.package}"
        if self.group is not None:
            return f"{self.group}{at}: {self.name}"
        return f"{self.file_path('')}{at}"

    @property
    def chosen(self) -> str:
        """The group of a choice as the list has it, with its package."""
        return f"{self.group}" if self.package is None else f"{self.group}@{self.package}"

    @property
    def is_self(self) -> bool:
        """Whether it stands for the file's own keys."""
        return self.group is None and self.name == SELF

    def folder_path(self, base: str) -> str:
        """The folder from the top, where the list stands in a file of the folder ``base``."""
        path = posixpath.normpath(posixpath.join("" if self.absolute else base, self.folder))
        return "" if path == "." else path

    def file_path(self, base: str) -> str:
        """The file from the top, without ``.yaml``."""
        return posixpath.join(self.folder_path(base), self.name or "")

    def below(self, base: str, parent: Path) -> Path:
        """The package of the file's keys, where the list stands in a file with the package ``parent``."""
        package = self.folder.replace("/", ".") if self.package is None else self.package
        if _GROUP in package:
            group = self.folder_path(base).replace("/", ".")
            package = f"{_GLOBAL}.{package.replace(_GROUP, group)}"
        return package_of(package, parent)

    def key(self, base: str, parent: Path) -> str:
        """What an override of the choice names: ``"actor@actor_rollout_ref.actor"``."""
        return f"{self.folder_path(base)}@{dotted(self.below(base, parent))}"


def entries(document: Document) -> tuple[DefaultsEntry, ...]:
    """The entries of a document's list, in order, without those that choose what Hydra itself does.

    Raises:
        InputError: an entry is neither a name nor a choice, or ``_self_`` stands twice.
    """
    listed = document.tree.get("defaults")
    if not isinstance(listed, list):
        return ()
    named = tuple(
        entry
        for number, item in enumerate(listed)
        for entry in _read(item, document.location("defaults", str(number)))
    )
    own = [entry for entry in named if entry.is_self]
    if len(own) > 1:
        raise InputError(
            _("{word} stands twice").format(word=SELF),
            location=own[1].place,
            key="defaults",
            hint=_("remove one of the two"),
        )
    return named


def _read(item: Any, place: Location) -> Iterator[DefaultsEntry]:
    if isinstance(item, str):
        path, package = _parted(item)
        folder, _slash, name = path.removesuffix(".yaml").rpartition("/")
        yield DefaultsEntry(
            group=None,
            folder=folder.strip("/"),
            name=name,
            package=package,
            absolute=path.startswith("/"),
            place=place,
        )
        return
    if not isinstance(item, dict):
        raise InputError(_("an entry is neither a name nor 'group: choice'"), location=place, key="defaults")
    for key, value in item.items():
        words = key.removeprefix(_OVERRIDE).removeprefix(_OPTIONAL).removeprefix(_OVERRIDE).strip()
        path, package = _parted(words)
        group = path.strip("/")
        if group.partition("/")[0] == "hydra":
            continue
        for choice in (value or [None]) if isinstance(value, list) else [value]:
            yield DefaultsEntry(
                group=group,
                folder=group,
                name=None if choice is None else str(choice).removesuffix(".yaml"),
                package=package,
                absolute=path.startswith("/"),
                place=place,
                optional=_OPTIONAL in key,
                overrides=_OVERRIDE in key,
                one_of_list=isinstance(value, list),
            )


def _parted(text: str) -> tuple[str, str | None]:
    """A path and the package behind its ``@``."""
    path, at, package = text.partition("@")
    return path, package if at else None


def package_of(name: str, parent: Path) -> Path:
    """Where a package of Hydra's lies that is named in a list of a file below another one."""
    name = "" if name == _HERE else name
    if name == _GLOBAL or name.startswith(f"{_GLOBAL}."):
        name, parent = name.removeprefix(_GLOBAL).removeprefix("."), ()
    return (*parent, *(split_key(name) if name else ()))


def header_package(document: Document) -> Path | None:
    """What a header ``# @package NAME`` says, from the top; None without one."""
    return None if document.package in (None, _GROUP) else package_of(document.package or "", ())
