"""Reads a project's settings as verl's, and writes verl's keys as the project spells them."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from tuner.errors import InputError
from tuner.inputs.overrides import Argument, Override, OverrideKind
from tuner.inputs.settings import Settings
from tuner.inputs.tree import (
    Path,
    Tree,
    contains,
    dotted,
    leaves,
    lookup,
    merged,
    nested,
    shown,
    split_key,
    without,
)
from tuner.inputs.yaml_file import Document, parse_yaml
from tuner.language import _
from tuner.trainers.verl.forks.fork import Fork, below

_OF_EACH_GPU = "_per_gpu"


def in_verl(fork: Fork, path: Path) -> Path:
    """How verl spells a key of a project; the key itself where both agree, or the project has none such."""
    for length in range(len(path), 0, -1):
        target = fork.keys.get(".".join(path[:length]))
        if target is not None:
            return (*target.split("."), *path[length:])
    return path


def in_fork(fork: Fork, path: Path) -> Path | None:
    """How a project spells a key of verl; None where it has none for it."""
    if not fork.renames or any(below(path, shared) for shared in fork.shared):
        return path
    for own, target in fork.keys.items():
        if below(path, target):
            return (*own.split("."), *path[len(target.split(".")) :])
    return None


def translated(fork: Fork, document: Document) -> Document:
    """A project's configuration in verl's keys; each keeps the place where it stands."""
    if not fork.renames:
        return document
    tree: Tree = {}
    locations = dict(document.locations)
    for path, value in leaves(document.tree):
        if not path:
            continue
        place = document.location(*path)
        target = in_verl(fork, path)
        tree = merged(tree, nested(target, value))
        locations[target] = place
    return replace(document, tree=tree, locations=locations)


def translated_overrides(fork: Fork, overrides: Iterable[Override]) -> tuple[Override, ...]:
    """A project's overrides in verl's keys; the text stays as typed."""
    return tuple(
        replace(override, key=dotted(in_verl(fork, split_key(override.key))))
        if override.package is None
        else override
        for override in overrides
    )


def dotlist(arguments: Sequence[Argument]) -> tuple[Override, ...]:
    """Arguments as OmegaConf reads a list of them: whatever stands behind the first ``=`` is YAML, or text.

    It is laid on dataclasses, whose fields that are mappings take any key.

    Raises:
        InputError: an argument has no key.

    Source: omegaconf 2.3, ``OmegaConf.from_cli``.
    """
    overrides = []
    for argument in arguments:
        key, equals, text = argument.text.partition("=")
        if not equals or not key:
            raise InputError(
                _("{shown} is not an override").format(shown=shown(argument.text)),
                location=argument.location,
                hint=_("write key=value"),
            )
        overrides.append(
            Override(
                key=key.lstrip("+"),
                package=None,
                kind=OverrideKind.CHANGE,
                value=_value(text),
                text=argument.text,
                location=argument.location,
                extends=True,
            )
        )
    return tuple(overrides)


def laid_on(fork: Fork, tree: Tree, keys: Collection[Path] = ()) -> Tree:
    """A release's configuration with what the project lays on it, and with the keys that it has.

    Args:
        fork: the project.
        tree: the release's.
        keys: those that the user sets.
    """
    lacks = fork.lacks if fork.is_as_known(keys) else ()
    for path in map(split_key, lacks):
        if contains(tree, path):
            tree = without(tree, path)
    tree = merged(tree, _without_counterparts(fork, keys))
    for key in fork.keys.values():
        if not contains(tree, split_key(key)):
            tree = merged(tree, nested(split_key(key), None))
    return tree


def _without_counterparts(fork: Fork, keys: Collection[Path]) -> Tree:
    """What a project lays on, less its sizes over all GPUs where the user sets the one of each GPU.

    A copy of it that has the latter leaves the former unset: verl takes no more than one of the two.
    """
    tree = fork.laid_on
    for path in fork.lacked(keys):
        counterpart = (*path[:-1], path[-1].removesuffix(_OF_EACH_GPU))
        if counterpart != path and contains(tree, counterpart):
            tree = without(tree, counterpart)
    return tree


def known_keys(fork: Fork, tree: Tree) -> Tree:
    """The keys of a tree that the project has, in verl's spelling."""
    if not fork.renames:
        return tree
    known: Tree = fork.laid_on
    for key in (*fork.keys.values(), *fork.shared):
        path = split_key(key)
        if contains(tree, path):  # a configuration may lack a key of the release
            known = merged(known, nested(path, lookup(tree, path)))
    return known


def completed(fork: Fork, settings: Settings) -> Settings:
    """The settings with what the project computes of them."""
    for key, value in fork.computed(settings).items():
        path = split_key(key)
        settings = replace(settings, tree=merged(settings.tree, nested(path, value)))
    return settings


def spelled_override(fork: Fork, text: str) -> str | None:
    """An override in verl's keys as a project has it; None where it has no key for it."""
    if not fork.renames:
        return text
    bare = text.lstrip("+~")
    key, equals, value = bare.partition("=")
    path = in_fork(fork, split_key(key))
    return None if path is None or text.startswith("~") else f"{dotted(path)}{equals}{value}"


def _value(text: str) -> Any:
    try:
        tree = parse_yaml(f"value: {text}", source="").tree
    except InputError:
        return text
    return tree.get("value") if list(tree) == ["value"] else text
