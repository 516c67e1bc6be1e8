"""Notes which storages exist, while operations run on tensors without data."""

import weakref
from collections.abc import Iterator, Set
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


class Storages(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes when storages that did not exist before come into being and go."""

    def __init__(self, *known: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.events: list[tuple[int, int]] = []  # number of a storage; its bytes, negative when it goes
        self._references: dict[int, tuple[int, weakref.ref[Any]]] = {}  # by the id of a live storage
        self._count = 0
        self.backward = False
        for tensor in _tensors(known):
            self._references[id(tensor.untyped_storage())] = (-1, weakref.ref(tensor.untyped_storage()))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if self.backward and func is torch.ops.aten.index_put.default:
            # The gradient of an index is added into fresh zeros; only tensors without data get a copy.
            func = torch.ops.aten.index_put_.default
        out = func(*args, **(kwargs or {}))
        for tensor in _tensors(out):
            self._note(tensor.untyped_storage())
        return out

    def _note(self, storage: torch.UntypedStorage) -> None:
        key, size = id(storage), storage.nbytes()
        if key in self._references:
            return
        number, self._count = self._count, self._count + 1

        def gone(_: Any) -> None:
            del self._references[key]
            self.events.append((number, -size))

        self._references[key] = (number, weakref.ref(storage, gone))
        self.events.append((number, size))

    def numbers(self, *tensors: Any) -> set[int]:
        """The numbers of the storages of these tensors."""
        return {self._references[id(tensor.untyped_storage())][0] for tensor in _tensors(tensors)}

    def peak(self, since: int = 0, *, without: Set[int] = frozenset()) -> int:
        """The most bytes at once from an event on, beyond those at that event."""
        now = most = 0
        for number, size in self.events[since:]:
            now += 0 if number in without else size
            most = max(most, now)
        return most

    def live(self, *, without: Set[int] = frozenset()) -> int:
        """Bytes that exist now."""
        return sum(size for number, size in self.events if number not in without)


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_iter(tree) if isinstance(leaf, torch.Tensor))
