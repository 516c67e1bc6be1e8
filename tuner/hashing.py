"""Hashes of frozen dataclasses that are keys of caches."""

from collections.abc import Callable
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type)
_KEPT = "_hash"


def hashed_once(cls: _Class) -> _Class:
    """Keep the hash of a frozen dataclass once it was asked for.

    A workload is looked up in caches far more often than it is made, and the hash of a dataclass goes
    through all fields of all its parts. The hash stays behind when an object is copied or pickled: that
    of a text differs from process to process.
    """
    compute: Callable[[Any], int] = cls.__hash__  # type: ignore[assignment]  # of the class, not of an object

    def hash_kept(self: Any) -> int:
        state: dict[str, Any] = vars(self)
        found = state.get(_KEPT)
        if found is None:
            found = state[_KEPT] = compute(self)
        return int(found)

    def state_without_hash(self: Any) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != _KEPT}

    setattr(cls, "__hash__", hash_kept)  # noqa: B010 - mypy knows no assignment to a method
    setattr(cls, "__getstate__", state_without_hash)  # noqa: B010
    return cls
