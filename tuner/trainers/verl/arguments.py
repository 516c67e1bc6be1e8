"""Reads the arguments of a launch in verl's keys, whatever project spells them."""

from collections.abc import Sequence

from msgspec.structs import replace

from tuner.errors import Location, UnsupportedError
from tuner.inputs.overrides import (
    Argument,
    Arguments,
    Override,
    parse_overrides,
)
from tuner.inputs.tree import Path, leaves, shown, split_key
from tuner.inputs.yaml_file import Document
from tuner.language import _
from tuner.trainers.verl.forks.fork import Fork
from tuner.trainers.verl.forks.translate import (
    dotlist,
    translated_overrides,
)


def parsed(given: Sequence[Argument], fork: Fork | None) -> Arguments:
    """Arguments in verl's keys, without the choices of config groups that a project has of its own."""
    if fork is None:
        return parse_overrides(given)
    if fork.config_argument is not None:
        arguments = Arguments(overrides=dotlist(given), config_name=None)
    else:
        arguments = parse_overrides(given)
    overrides = [override for override in arguments.overrides if not _is_own_group(fork, override)]
    return replace(arguments, overrides=translated_overrides(fork, overrides))


def _is_own_group(fork: Fork, override: Override) -> bool:
    """Whether an override chooses of a config group of the project's.

    Raises:
        UnsupportedError: with that choice the project does not train with verl.
    """
    choice = fork.groups.get(override.key)
    if choice is not None and override.value != choice:
        raise UnsupportedError(
            _("{fork} does not train with verl on {override}").format(
                fork=fork.name, override=shown(override.text)
            ),
            location=override.location,
            hint=_("advice is for {key}={choice}").format(key=override.key, choice=choice),
        )
    return choice is not None


def user_locations(documents: Sequence[Document], overrides: Sequence[Override]) -> dict[Path, Location]:
    """Every key that the user sets, and where."""
    locations = {
        path: document.location(*path)
        for document in documents
        for path, _value in leaves(document.tree)
        if path
    }
    for override in overrides:
        if override.package is None:
            locations[split_key(override.key)] = override.location
    return locations
