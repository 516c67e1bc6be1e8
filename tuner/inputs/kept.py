"""What was found in a tree, kept for trees that differ from it where nobody looked."""

from typing import Generic, TypeVar

from tuner.inputs.tree import Path

_K = TypeVar("_K")
_V = TypeVar("_V")

Grounds = frozenset[Path]
"""The paths that were looked at for something, in vain or not: it is the same as long as these are."""


class Kept(Generic[_K, _V]):
    """Values by key, each with its grounds.

    Args:
        before: of the tree that this one was made from; None of one that was made anew.
        changed: the only path at which the two trees differ; the tree before had no section there.
    """

    def __init__(self, before: "Kept[_K, _V] | None" = None, changed: Path = ()) -> None:
        self._before = before
        self._touched = {changed[:length] for length in range(1, len(changed) + 1)}
        self._entries: dict[_K, tuple[_V, Grounds]] = {}

    def keep(self, key: _K, value: _V, grounds: Grounds) -> None:
        """Keep a value that was found in this tree."""
        self._entries[key] = value, grounds

    def find(self, key: _K) -> tuple[_V, Grounds] | None:
        """The value and its grounds; None where it must be looked for."""
        entry = self._entries.get(key)
        if entry is None and self._before is not None:
            entry = self._before.find(key)
            if entry is None or not self._touched.isdisjoint(entry[1]):
                return None
            self._entries[key] = entry
        return entry
