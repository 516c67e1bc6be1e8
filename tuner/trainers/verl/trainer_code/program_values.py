"""What a value can be in a program that nobody runs: a constant, a section, an object, or unknown."""

import ast
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from tuner.inputs.tree import Path
from tuner.trainers.verl.trainer_code.program_modules import Function, ProgramModule

Value = Any
"""A constant of Python, or one of the kinds below."""


class _Mark(Struct, frozen=True):
    meaning: str


UNKNOWN: Final = _Mark("unknown")
"""A value that is not followed: nothing is said of what depends on it."""
ABSENT: Final = _Mark("absent")
"""What a configuration has at a path where it has nothing."""
MAYBE: Final = _Mark("maybe")
"""The worker of a role that may have none."""


class Section(Struct, frozen=True):
    """A section of the configuration."""

    path: Path


class RoleName(Struct, frozen=True):
    """A member of the enumeration of roles."""

    name: str


class ImportedName(Struct, frozen=True):
    """A name of another file, which is read when something is asked of it."""

    module: str  # with slashes
    name: str


class DefinedFunction(Struct, frozen=True, eq=False):
    """A function of the copy, with the object that it is a method of."""

    module: ProgramModule
    node: Function
    instance: "Instance | None" = None
    owner: "DefinedClass | None" = None  # the class that defines it


class DefinedClass(Struct, frozen=True):
    """A class of the copy."""

    module: ProgramModule
    node: ast.ClassDef


class Passed(Struct, frozen=True):
    """A function that hands on what it is given, as ``ray.remote(num_cpus=1)`` does."""


class Instance(Struct, eq=False):
    """An object of a class of the copy."""

    of: DefinedClass
    made_at: int  # how many unknown conditions stood around where it was made
    attributes: dict[str, Value]


class RoleTable(Struct, eq=False):
    """The dictionary of the workers that roles get."""

    made_at: int
    workers: dict[str, Value]  # by role; UNKNOWN where it is not known whether it is there
    is_open: bool = False  # something may have added roles, or taken some away

    def has(self, role: Value) -> Value:
        """Whether a role has a worker."""
        if self.is_open or not isinstance(role, RoleName):
            return UNKNOWN
        return UNKNOWN if self.workers.get(role.name) is MAYBE else role.name in self.workers

    def put(self, role: Value, worker: Value, *, sure: bool) -> None:
        """Give a role a worker; not surely under an unknown condition."""
        if not isinstance(role, RoleName):
            self.is_open = True
        elif sure or role.name in self.workers:
            known = self.workers.get(role.name, worker)
            self.workers[role.name] = worker if sure else _either(known, worker)
        else:
            self.workers[role.name] = MAYBE

    def take(self, role: Value, *, sure: bool) -> None:
        """Take a role's worker away."""
        if not isinstance(role, RoleName):
            self.is_open = True
        elif sure:
            self.workers.pop(role.name, None)
        elif role.name in self.workers:
            self.workers[role.name] = MAYBE


def _either(first: Value, second: Value) -> Value:
    if first is MAYBE:
        return MAYBE
    return first if is_same(first, second) else UNKNOWN


def is_same(first: Value, second: Value) -> bool:
    """Whether two values are surely the same, or objects of one class in one state."""
    if first is UNKNOWN or second is UNKNOWN:
        return False
    if isinstance(first, Instance) and isinstance(second, Instance):
        alike = first.of == second.of and first.attributes.keys() == second.attributes.keys()
        return alike and all(is_same(it, second.attributes[name]) for name, it in first.attributes.items())
    if isinstance(first, RoleTable) and isinstance(second, RoleTable):
        return (first.is_open, first.workers) == (second.is_open, second.workers)
    return type(first) is type(second) and bool(first == second)


def is_constant(value: Value) -> bool:
    """Whether a value is one of Python's own, whose operations are known."""
    if isinstance(value, list | tuple):
        return all(map(is_constant, value))
    if isinstance(value, Mapping):
        return all(map(is_constant, value.values()))
    return value is None or isinstance(value, str | int | float)
