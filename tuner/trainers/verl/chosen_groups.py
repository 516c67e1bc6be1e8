"""Config groups of a launch's own configuration that its arguments choose of, where nothing is chosen before.

A ``defaults`` list may have a group without a choice (``- exps: []``, ``- exps: null``): a place for files
that ``exps=[first,second]`` lays on what stands before it in the list.
"""

from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tuner.inputs.overrides import Override, OverrideKind
from tuner.inputs.yaml_file import Document, read_yaml
from tuner.trainers.verl.arguments import user_locations
from tuner.trainers.verl.defaults_entries import DefaultsEntry, entries
from tuner.trainers.verl.defaults_list import follow_choices
from tuner.trainers.verl.releases import BUNDLED

if TYPE_CHECKING:
    from tuner.trainers.verl.user_configuration import UserConfiguration


def with_chosen_groups(configuration: "UserConfiguration") -> "UserConfiguration":
    """The configuration with the files that its arguments choose, which are no keys then.

    Raises:
        InputError: a chosen file is missing or malformed.
    """
    choices = [override for override in configuration.arguments.overrides if _may_choose(override)]
    document = _with_list(configuration) if choices else None
    if document is None:
        return configuration
    places = {entry.folder_path(""): entry for entry in _open_groups(document)}
    made = [override for override in choices if override.key in places]
    composition = configuration.composition
    tops = () if configuration.primary is None else configuration.primary.tops
    for entry in places.values():  # in the order of the list, and of one group the last choice
        named = next((override for override in reversed(made) if override.key == entry.folder_path("")), None)
        if named is not None:
            chosen = [replace(entry, name=name, place=named.location) for name in _names(named)]
            composition = composition.below(follow_choices(document, chosen, tops))
    overrides = tuple(it for it in configuration.arguments.overrides if it not in made)
    return replace(
        configuration,
        composition=composition,
        arguments=replace(configuration.arguments, overrides=overrides),
        keys=user_locations(composition.documents, overrides),
    )


def _may_choose(override: Override) -> bool:
    plain = override.kind is OverrideKind.CHANGE and override.package is None and "." not in override.key
    return plain and bool(_names(override))


def _names(override: Override) -> tuple[str, ...]:
    """The files that an override chooses; none where its value is no choice."""
    names = override.value if isinstance(override.value, list) else [override.value]
    return tuple(names) if all(isinstance(name, str) and name for name in names) else ()


def _with_list(configuration: "UserConfiguration") -> Document | None:
    """The file whose list the arguments choose of: the launch's own, else that of the copy of verl."""
    primary = configuration.primary
    if primary is not None and primary.document is not None:
        return primary.document
    if configuration.composition.documents or configuration.fork is not None:
        return None
    copy = configuration.copy.nearest(BUNDLED[-1])
    return None if copy is None else read_yaml(copy.file)


def _open_groups(document: Document) -> Iterator[DefaultsEntry]:
    """The groups behind the file's own keys of which nothing is chosen, and whose files lie beside it."""
    behind = False
    for entry in entries(document):
        behind = behind or entry.is_self
        free = behind and entry.group is not None and entry.name is None and not entry.overrides
        if free and (FilePath(document.source).parent / entry.folder_path("")).is_dir():
            yield entry
