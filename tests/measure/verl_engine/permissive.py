"""A finder of packages that answer anything, for those that verl imports and a measurement does without."""

import importlib.abc
import importlib.machinery
import types
from typing import Any
from unittest import mock


class Permissive(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds packages that are imported by verl and not used by its engine, and lets them answer anything."""

    names = ("datasets", "ray")

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.partition(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)

        def anything(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return mock.MagicMock(name=f"{spec.name}.{name}")

        vars(module)["__getattr__"] = anything
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass
