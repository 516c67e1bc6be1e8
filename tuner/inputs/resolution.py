"""Settings with all interpolations resolved: what differs from the release's own, and how to say so again."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from tuner.inputs.interpolation import is_interpolation
from tuner.inputs.override_syntax import has_name, override, same
from tuner.inputs.settings import Origin, Settings
from tuner.inputs.tree import Path, contains, dotted, leaves, lookup

ABSENT = object()
"""Stands for the value of a key that is not there; no value is the same."""


class Resolved(Struct, frozen=True, kw_only=True):
    """One leaf of the settings beside what the release has there by itself."""

    path: Path
    value: Any
    default: Any  # resolved as well; ABSENT where the release has no such key
    origin: Origin
    by_user: bool  # set in a file or by an override, to whatever value
    follows: tuple[str, ...] = ()  # the keys that the release takes the value from, where it does so

    @property
    def key(self) -> str:
        """The dotted key."""
        return dotted(self.path)

    @property
    def differs(self) -> bool:
        """Whether the value is another than the release's own."""
        return not same(self.value, self.default)


def resolved(settings: Settings) -> tuple[Resolved, ...]:
    """Every leaf of the settings, in the order of the release's configuration."""
    released = _leaves(settings.released)
    return tuple(_resolved(settings, path, value, released) for path, value in _leaves(settings).items())


def deleted(settings: Settings) -> tuple[Path, ...]:
    """The highest keys of the release's configuration that the settings no longer have."""
    return tuple(_deleted(settings.defaults, settings.tree, ()))


def to_say(settings: Settings) -> Iterator[tuple[Path, Any]]:
    """What must be set over the release's defaults to get the same settings.

    A key that follows another one by itself is not among them. One that the user set is, even to the
    release's own value, where its default follows another key: that one may have another value now.
    """
    for leaf in resolved(settings):
        if not leaf.by_user:
            continue
        raw = lookup(settings.defaults, leaf.path) if contains(settings.defaults, leaf.path) else ABSENT
        if is_interpolation(raw) or not same(raw, leaf.value):
            yield leaf.path, leaf.value


def overrides(settings: Settings) -> tuple[str, ...]:
    """The fewest overrides that turn the release's defaults into these settings."""
    added: dict[Path, None] = {}
    said = []
    for path, value in to_say(settings):
        end = next((end for end in range(len(path)) if not has_name(path[end : end + 1])), None)
        if end is None:
            mark = "" if contains(settings.defaults, path) else "+"
            said.append(override(dotted(path), value, mark))
        elif end > 0:  # the section of the first key that Hydra cannot name, as a whole
            added[path[:end]] = None
    said += [override(dotted(path), settings.get(dotted(path)), "++") for path in added]
    return (*(f"~{dotted(path)}" for path in deleted(settings)), *said)


def _resolved(settings: Settings, path: Path, value: Any, released: dict[Path, Any]) -> Resolved:
    default = released.get(path, ABSENT)
    origin = _set_by(settings, path)
    raw = lookup(settings.tree, path) if contains(settings.tree, path) else None
    follows = settings.way(dotted(path))[1:] if origin is None and is_interpolation(raw) else ()
    return Resolved(
        path=path,
        value=value,
        default=default,
        origin=origin or settings.default_origin,
        by_user=origin is not None,
        follows=tuple(map(dotted, follows)),
    )


def _set_by(settings: Settings, path: Path) -> Origin | None:
    """Who set a key, or the section that it comes from by an interpolation."""
    ends = (path[:end] for end in range(len(path), 0, -1))
    return next((settings.origins[end] for end in ends if end in settings.origins), None)


def _leaves(settings: Settings) -> dict[Path, Any]:
    return {path: value for path, value in leaves(settings.resolved()) if path}


def _deleted(defaults: Any, tree: Any, path: Path) -> Iterator[Path]:
    if not isinstance(defaults, dict) or not isinstance(tree, dict):
        return
    for key, child in defaults.items():
        if key not in tree:
            yield (*path, key)
        else:
            yield from _deleted(child, tree[key], (*path, key))
