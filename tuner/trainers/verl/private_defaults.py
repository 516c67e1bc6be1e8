"""A user's own copy of verl's defaults, looked for in the folders above what is given, composed as it stands.

Who vendors verl, or copies its ``ppo_trainer.yaml`` to change it, runs on that copy and not on a release's.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Any

from msgspec import Struct

from tuner.errors import InputError, TunerError
from tuner.files import is_there
from tuner.inputs.tree import Path, Tree, merged, nested
from tuner.inputs.yaml_file import Document, read_yaml
from tuner.language import _
from tuner.trainers.verl.defaults_list import choices, package_of
from tuner.trainers.verl.fingerprint import Likeness, likest

_PLACES = (  # below a folder above what is given
    "verl/trainer/config",
    "verl/verl/trainer/config",  # a submodule
    "trainer/config",
    "config",
)
_FOLDERS_UP = 8
_MOST_FILES = 200
_KEPT = 8  # copies that are not read again for every change that is tried
_ENGINE_GROUP = "model_engine"
_ENGINE = re.compile(r"\$\{model_engine\}")


class PrivateDefaults(Struct, frozen=True, kw_only=True):
    """A copy of verl's defaults, and the release that it is most like."""

    file: FilePath
    tree: Tree
    likeness: Likeness

    @property
    def version(self) -> str:
        """The release that it is most like."""
        return self.likeness.version


class PrivateCopies:
    """The copies that launches would rest on, each looked for once however many changes are tried."""

    def __init__(self) -> None:
        self._looked_for: dict[tuple[FilePath, str], PrivateDefaults | None] = {}

    def find(self, folder: FilePath, config: str) -> PrivateDefaults | None:
        """The copy, as :func:`private_defaults` finds it."""
        asked = folder, config
        if asked not in self._looked_for:
            self._looked_for[asked] = private_defaults(folder, config)
        return self._looked_for[asked]


def private_defaults(folder: FilePath, config: str) -> PrivateDefaults | None:
    """The copy of one of verl's configurations that a launch from this folder would rest on.

    None where none is found, or where it does not hold what verl's do.

    Args:
        folder: where the configuration or the script lies.
        config: one of :data:`~tuner.trainers.verl.defaults.CONFIGS`.
    """
    for file in _candidates(folder.absolute(), config):
        private = _read(file, config, file.stat().st_mtime_ns)
        if private is not None:
            return private
    return None


@lru_cache(maxsize=_KEPT)
def _read(file: FilePath, config: str, _written_at: int) -> PrivateDefaults | None:
    """A copy; None of a file that cannot be composed, or has too little of what verl's has."""
    try:
        tree = composed(file)
    except TunerError:
        return None
    likeness = likest(tree, config)
    return PrivateDefaults(file=file, tree=tree, likeness=likeness) if likeness.shares_most else None


def composed(file: FilePath) -> Tree:
    """A configuration with all that its ``defaults`` list names beside it, as Hydra composes it.

    Raises:
        InputError: a file of it is missing or malformed.
    """
    return _Composer(file.parent).tree(read_yaml(file), file.parent, ())


def _candidates(folder: FilePath, config: str) -> Iterator[FilePath]:
    for above in (folder, *list(folder.parents)[:_FOLDERS_UP]):
        places = [above / place for place in _PLACES]
        if above == folder:
            places.insert(0, above)
        for place in places:
            file = place / f"{config}.yaml"
            if is_there(file, FilePath.is_file):
                yield file
        if is_there(above / ".git"):  # what lies above is no part of the user's repository
            return


class _Composer:
    """Composes one configuration, with the choices of config groups that its files override."""

    def __init__(self, top: FilePath) -> None:
        self._top = top
        self._files = 0
        self._chosen: dict[str, str] = {}  # by group, the outermost file's word first

    def tree(self, document: Document, folder: FilePath, package: Path) -> Tree:
        """A document on what its ``defaults`` list names, below a package."""
        self._files += 1
        if self._files > _MOST_FILES:
            raise InputError(_("the defaults list names too many files"), location=document.location())
        if document.package is not None:
            package = package_of(document.package, ())
        own: Tree = {key: value for key, value in document.tree.items() if key not in ("defaults", "hydra")}
        own = nested(package, own)
        entries = document.tree.get("defaults")
        if not isinstance(entries, list):
            return own
        self._override(entries, document)
        tree: Tree = {}
        has_self = False
        for number, entry in enumerate(entries):
            if _is_override(entry):
                continue
            for group, choice in choices(entry, document.location("defaults", str(number))):
                if group is None and choice == "_self_":
                    has_self, part = True, own
                else:
                    part = self._part(group, choice, folder, package)
                tree = merged(tree, part)
        return tree if has_self else merged(tree, own)

    def _override(self, entries: list[Any], document: Document) -> None:
        for number, entry in enumerate(entries):
            if _is_override(entry):
                for group, choice in choices(entry, document.location("defaults", str(number))):
                    self._chosen.setdefault(group or "", choice)

    def _part(self, group: str | None, choice: str, folder: FilePath, package: Path) -> Tree:
        """What one entry of a ``defaults`` list brings."""
        if group is None:
            choice, _at, target = choice.partition("@")
            return self._file(choice, folder, package_of(target, package) if target else package)
        choice = self._chosen.get(group, choice)
        if group == _ENGINE_GROUP:
            self._chosen.setdefault(group, choice)
        choice = _ENGINE.sub(self._chosen.get(_ENGINE_GROUP, "dp"), choice)
        name, _at, target = group.partition("@")
        return self._file(f"{name}/{choice}", folder, package_of(target or name.replace("/", "."), package))

    def _file(self, name: str, folder: FilePath, package: Path) -> Tree:
        for start in (folder, self._top):
            file = start / f"{name}.yaml"
            if is_there(file, FilePath.is_file):
                return self.tree(read_yaml(file), file.parent, package)
        raise InputError(_("{name!r} is not beside the configuration").format(name=name))


def _is_override(entry: object) -> bool:
    return isinstance(entry, dict) and any(str(key).startswith("override ") for key in entry)
