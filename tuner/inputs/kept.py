"""What was found in a tree, kept for the trees that differ from it where nobody looked."""

from typing import Generic, TypeVar

from tuner.inputs.tree import Path

_K = TypeVar("_K")
_V = TypeVar("_V")

Grounds = frozenset[Path]
"""The paths that were looked at for something, in vain or not: it is the same as long as these are."""

_Changes = frozenset[tuple[Path, str]]
"""Leaves that differ from those of the first tree, with how Python writes their values."""

_NONE: _Changes = frozenset()


class Kept(Generic[_K, _V]):
    """Values by key, each with its grounds, of a tree and of all that were made from it by changing leaves.

    Such trees have the same sections, so that what was found in one of them holds in every other one that has
    the same leaves at its grounds, in whatever order they were changed.
    """

    def __init__(self) -> None:
        self._changed: dict[Path, _Changes] = {}  # by the path of a leaf, or of a section that it lies in
        self._here: dict[_K, tuple[_V, Grounds]] = {}
        self._anywhere: dict[_K, dict[Grounds, dict[_Changes, _V]]] = {}

    def after(self, path: Path, value: object) -> "Kept[_K, _V]":
        """What holds in the tree with another leaf at a path; both trees have the same sections."""
        other: Kept[_K, _V] = Kept()
        other._anywhere = self._anywhere
        before = self._changed.get(path, _NONE)
        change = (path, repr(value))  # 1, 1.0 and True are equal, and read otherwise
        other._changed = dict(self._changed)
        for length in range(1, len(path) + 1):
            others = self._changed.get(path[:length], _NONE) - before
            other._changed[path[:length]] = others | {change}
        return other

    def keep(self, key: _K, value: _V, grounds: Grounds) -> None:
        """Keep a value that was found in this tree."""
        self._here[key] = value, grounds
        self._anywhere.setdefault(key, {}).setdefault(grounds, {})[self._changed_among(grounds)] = value

    def find(self, key: _K) -> tuple[_V, Grounds] | None:
        """The value and its grounds; None where it must be looked for."""
        entry = self._here.get(key)
        if entry is None:
            for grounds, values in self._anywhere.get(key, {}).items():
                changes = self._changed_among(grounds)
                if changes in values:
                    entry = self._here[key] = values[changes], grounds
                    break
        return entry

    def _changed_among(self, grounds: Grounds) -> _Changes:
        if self._changed.keys().isdisjoint(grounds):
            return _NONE
        return _NONE.union(*[self._changed[path] for path in grounds if path in self._changed])
