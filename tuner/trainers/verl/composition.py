"""Composes a copy of verl's configuration with the files that its ``defaults`` list names, as Hydra does."""

import re
from collections.abc import Mapping
from pathlib import Path as FilePath

from msgspec.structs import replace

from tuner.errors import InputError
from tuner.files import is_there, note
from tuner.inputs.tree import Path, Tree, contains, lookup, merged, nested
from tuner.inputs.yaml_file import Document, read_yaml
from tuner.language import _
from tuner.trainers.verl.defaults_entries import DefaultsEntry, entries, header_package

_MOST_FILES = 200
_ENGINE_CHOICE = "model_engine@model_engine"
NO_CHOICES: Mapping[str, str] = {}
_ENGINE = re.compile(r"\$\{model_engine\}")


def composed(file: FilePath, choices: Mapping[str, str] = NO_CHOICES) -> Tree:
    """A configuration with all that its ``defaults`` list names beside it, as Hydra composes it.

    Args:
        file: the configuration.
        choices: of config groups, as overrides make them: ``{"engine": "megatron"}``.

    Raises:
        InputError: a file of it is missing or malformed.
    """
    return _Composer(file.parent, choices).tree(read_yaml(file), "", ())


def composed_with_generated(
    file: FilePath, choices: Mapping[str, str] = NO_CHOICES
) -> tuple[Tree, tuple[Path, ...]] | None:
    """A configuration with the sections whose files are missing taken from its generated form beside it.

    None where that is not there, or lacks one of them.

    A repository that ignores ``data/`` loses verl's ``config/data`` with it, and keeps
    ``_generated_ppo_trainer.yaml``, which has every section as it was composed.

    Args:
        file: the configuration.
        choices: of config groups, as for :func:`composed`.

    Raises:
        InputError: a file is malformed.

    Source: verl 0.5.0 ``scripts/generate_trainer_config.sh``.
    """
    generated = file.with_name(f"_generated_{file.name}")
    if not is_there(generated, FilePath.is_file):
        return None
    lost: list[Path] = []
    tree = _Composer(file.parent, choices, lost, _AbsentError).tree(read_yaml(file), "", ())
    whole = read_yaml(generated).tree
    for section in lost:
        if not section or not contains(whole, section):
            return None
        tree = merged(nested(section, lookup(whole, section)), tree)
    return tree, tuple(lost)


def composed_in_part(
    file: FilePath, choices: Mapping[str, str] = NO_CHOICES
) -> tuple[Tree, tuple[Path, ...]]:
    """A configuration without the files beside it that are missing or malformed, and where those would stand.

    Args:
        file: the configuration.
        choices: of config groups, as for :func:`composed`.

    Raises:
        InputError: the file itself is malformed.
    """
    lost: list[Path] = []
    tree = _Composer(file.parent, choices, lost).tree(read_yaml(file), "", ())
    return tree, tuple(lost)


class _AbsentError(InputError):
    """A file of a configuration that is not there."""


class _Composer:
    """Composes one configuration, with the choices of config groups that its files override."""

    def __init__(
        self,
        top: FilePath,
        choices: Mapping[str, str],
        lost: list[Path] | None = None,
        suffered: type[InputError] = InputError,
    ) -> None:
        self._top = top
        self._lost = lost  # sections whose files cannot be read; None where that is an error
        self._suffered = suffered  # what a file may lack to be lost
        self._files = 0
        #: By what is chosen, the outermost word first.
        self._chosen: dict[str, str | None] = {f"{group}@{group}": name for group, name in choices.items()}

    def tree(self, document: Document, base: str, package: Path) -> Tree:
        """A document of the folder ``base`` on what its ``defaults`` list names, below a package."""
        self._files += 1
        if self._files > _MOST_FILES:
            raise InputError(_("the defaults list names too many files"), location=document.location())
        own: Tree = {key: value for key, value in document.tree.items() if key not in ("defaults", "hydra")}
        own = nested(package, own)
        named = entries(document)
        for entry in named:
            if entry.overrides:
                self._chosen.setdefault(entry.key(base, package), entry.name)
        tree: Tree = {}
        for entry in named:
            if not entry.overrides:
                tree = merged(tree, own if entry.is_self else self._known_part(entry, base, package))
        return tree if any(entry.is_self for entry in named) else merged(tree, own)

    def _known_part(self, entry: DefaultsEntry, base: str, package: Path) -> Tree:
        """What one entry brings; nothing of one that cannot be read, where that is no error."""
        try:
            return self._part(entry, base, package)
        except self._suffered:
            if self._lost is None:
                raise
            self._lost.append(entry.below(base, package))
            return {}

    def _part(self, entry: DefaultsEntry, base: str, package: Path) -> Tree:
        """What one entry of a ``defaults`` list brings."""
        if entry.group is not None:
            key = entry.key(base, package)
            entry = replace(entry, name=self._chosen.get(key, entry.name))
            if key == _ENGINE_CHOICE:
                self._chosen.setdefault(key, entry.name)
        if entry.name is None:
            return {}
        engine = self._chosen.get(_ENGINE_CHOICE) or "dp"
        path = replace(entry, name=_ENGINE.sub(engine, entry.name)).file_path(base)
        file = self._top / f"{path}.yaml"
        if not is_there(file, FilePath.is_file):
            if entry.optional:
                note([str(file)])  # what is read changes when it is written
                return {}
            raise _AbsentError(
                _("{name!r} is not beside the configuration, and Hydra stops where it is missing").format(
                    name=path
                )
            )
        document = read_yaml(file)
        header = header_package(document) if entry.package is None else None
        below = entry.below(base, package) if header is None else header
        return self.tree(document, path.rpartition("/")[0], below)
