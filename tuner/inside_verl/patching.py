"""Replacing functions of verl: each once, as soon as its module has been imported."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tuner.inside_verl.importing import when_imported

MARK = "__tuner_patch__"  # on a replacement, the name of its patch

# The sources of these were read and tried with every patch; others are left as they are.
RELEASES = ("0.5.0", "0.6.0", "0.6.1", "0.7.0", "0.7.1", "0.8.0", "0.9.0", "0.9.1")
WITH_LEGACY = tuple(release for release in RELEASES if release < "0.8")  # workers of each role
WITH_ENGINE = tuple(release for release in RELEASES if release >= "0.7")  # workers of the model engine


def made_by(module: str, name: str) -> Callable[[Any], Any]:
    """A replacement whose module, and torch with it, is imported when it is put in place.

    Args:
        module: that has it, within this package: ``"skip.engine"``.
        name: the function that makes it of the original.
    """

    def make(original: Any) -> Any:
        return getattr(import_module(f"tuner.inside_verl.{module}"), name)(original)

    return make


def always() -> bool:
    """For a patch that no setting asks for or turns off."""
    return True


@dataclass(frozen=True, kw_only=True)
class Patch:
    """A function of verl that is replaced, and by what.

    Several patches may replace one attribute: each wraps what the one before it left.
    """

    name: str  # for the log line and the documentation, unique
    module: str  # of verl
    attribute: str  # in the module; with dots, such as a method of a class
    make: Callable[[Any], Any]  # the replacement, from the original
    does: str  # one sentence for the documentation
    releases: tuple[str, ...] = RELEASES
    copies: tuple[str, ...] = ()  # modules that import the attribute by name
    wanted: Callable[[], bool] = always  # by the settings


@dataclass
class State:
    """What has become of the patches in this process, by their names."""

    in_place: list[str]
    waiting: list[str]  # for verl to import their modules
    missing: list[str]  # there is no such attribute in this verl


def _owner(module: Any, attribute: str) -> tuple[Any, str]:
    *path, name = attribute.split(".")
    for part in path:
        module = getattr(module, part)
    return module, name


def _layers(function: Any) -> Iterator[Any]:
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


def _is_in_place(function: Any, patch: Patch) -> bool:
    return any(getattr(layer, MARK, None) == patch.name for layer in _layers(function))


def apply(patch: Patch) -> bool:
    """Replaces the attribute of a module that has been imported; False where it has no such attribute."""
    module = sys.modules[patch.module]
    try:
        owner, name = _owner(module, patch.attribute)
        original = getattr(owner, name)
    except AttributeError:
        return False
    if _is_in_place(original, patch):
        return True
    replacement = patch.make(original)
    replacement.__wrapped__ = original
    setattr(replacement, MARK, patch.name)
    setattr(owner, name, replacement)
    for copy in patch.copies:
        holder = sys.modules.get(copy)
        if getattr(holder, name, None) is original:
            setattr(holder, name, replacement)
    return True


def apply_when_imported(patches: tuple[Patch, ...], late: Callable[[Patch, bool], None]) -> State:
    """Applies the patches whose modules are there, and the others as soon as verl imports theirs.

    Args:
        patches: in the order in which they wrap one another.
        late: told of each that was applied after this call, and whether its attribute was there.
    """
    state = State([], [], [])
    for patch in patches:
        if patch.module in sys.modules:
            (state.in_place if apply(patch) else state.missing).append(patch.name)
            continue
        state.waiting.append(patch.name)

        def arrived(patch: Patch = patch) -> None:
            there = apply(patch)
            state.waiting.remove(patch.name)
            (state.in_place if there else state.missing).append(patch.name)
            late(patch, there)

        when_imported(patch.module, arrived)
    return state
