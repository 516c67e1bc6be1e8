"""Being told when a module has been imported, without importing it."""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from types import ModuleType


class _Announcing(importlib.abc.Loader):
    """A loader that does what another does and says when it is through."""

    def __init__(self, loader: importlib.abc.Loader, told: list[Callable[[], None]]) -> None:
        self.loader = loader
        self.told = told

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:  # as if this loader had never been there: data files, inspection
            spec.loader = module.__loader__ = self.loader
        try:
            self.loader.exec_module(module)
        except BaseException:  # who tries again, with what was missing, is told then
            _FINDER.waiting.setdefault(module.__name__, []).extend(self.told)
            raise
        for tell in self.told:
            tell()


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that somebody waits for, where the other finders find them."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Callable[[], None]]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        told = self.waiting.pop(fullname, None)
        if told is None:
            return None
        # The name is no longer waited for, so the search below passes this finder by.
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            self.waiting[fullname] = told
            return None
        spec.loader = _Announcing(spec.loader, told)
        return spec


_FINDER = _Finder()


def when_imported(name: str, tell: Callable[[], None]) -> None:
    """Calls ``tell`` once, after the module of this name has been imported for the first time.

    A module that is there already is not announced. A module that is found but never imported takes its
    callers along.
    """
    _FINDER.waiting.setdefault(name, []).append(tell)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
