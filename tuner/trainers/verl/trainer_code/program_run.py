"""Follows the statements of a program under the settings of a launch: nothing is imported or run.

Where a condition is not known, both ways are followed, and what they set is unknown unless it was so before.
Where the job would surely stop, and where there is too much to follow, nothing is said.
"""

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct, field

from tuner.inputs.tree import Path
from tuner.trainers.verl.trainer_code.conditions import truth_of, value_of
from tuner.trainers.verl.trainer_code.program_assignments import assign, delete, set_name
from tuner.trainers.verl.trainer_code.program_calls import called
from tuner.trainers.verl.trainer_code.program_modules import ProgramModule, ProgramModules
from tuner.trainers.verl.trainer_code.program_names import is_in, operand_of
from tuner.trainers.verl.trainer_code.program_values import (
    UNKNOWN,
    DefinedClass,
    DefinedFunction,
    ImportedName,
    Instance,
    RoleName,
    RoleTable,
    Value,
    is_same,
)

_MOST_STATEMENTS = 4_000
_MOST_DEPTH = 24
Read = Callable[[Path], Value]


class NotFollowedError(Exception):
    """The program stops, or there is more of it than is followed."""


class _End(Struct):
    """How a body ends: where it goes on behind it, whether it leaves the function, with what."""

    leaves: bool = False  # surely
    may_leave: bool = False


class ProgramRun(Struct, eq=False):
    """One way through a program."""

    modules: ProgramModules
    reads: Read
    unknown: int = 0  # conditions that are not known around what is followed
    statements: int = 0
    depth: int = 0
    set_paths: dict[Path, Value] = field(default_factory=dict)  # of the configuration, by the program
    copied: bool = False  # there are several configurations, which are not told apart
    made: list[Instance] = field(default_factory=list)
    loaded: dict[str, Value] = field(default_factory=dict)  # workers by role: UNKNOWN where it is not sure
    uses: list[tuple[Value, Value]] = field(default_factory=list)  # classes of workers, and their sections
    pools: list[tuple[Value, Value]] = field(default_factory=list)  # of GPUs: their sizes, and those of roles

    def follow(self, function: DefinedFunction, given: dict[str, Value]) -> Value:
        """What a function gives for its arguments.

        Raises:
            NotFollowedError: the program stops in it, or it is too long.
        """
        if self.depth >= _MOST_DEPTH:
            raise NotFollowedError
        frame = ProgramFrame(run=self, function=function, names=given, made_at=self.unknown)
        self.depth += 1
        try:
            frame.returned = frame.body(function.node.body).leaves
        finally:
            self.depth -= 1
            self.unknown = frame.made_at
        return frame.result()

    def read(self, path: Path) -> Value:
        """What the configuration has at a path, the program's own assignments heeded."""
        if path in self.set_paths:
            return self.set_paths[path]
        if any(path[:length] in self.set_paths for length in range(1, len(path))):
            return UNKNOWN
        return self.reads(path)


class ProgramFrame(Struct, eq=False):
    """A function that is followed, with its local names."""

    run: ProgramRun
    function: DefinedFunction
    names: dict[str, Value]
    made_at: int
    results: list[Value] = field(default_factory=list)
    returned: bool = False  # surely

    @property
    def module(self) -> ProgramModule:
        """The file."""
        return self.function.module

    @property
    def modules(self) -> ProgramModules:
        """The files of the copy."""
        return self.run.modules

    def read(self, path: Path) -> Value:
        """What the configuration has at a path."""
        return self.run.read(path)

    def operand(self, node: ast.expr) -> Value:
        """What a part of an expression stands for that is no operation."""
        return operand_of(node, self)

    def has(self, holder: Value, value: Value) -> Value:
        """Whether the table of workers has a role, or a section a key."""
        return is_in(holder, value, self)

    def call(self, node: ast.Call) -> Value:
        """What a call gives."""
        return called(node, self)

    def loads(self, role: RoleName, table: RoleTable) -> Value:
        """The worker of a role, noted as one that is taken where a trainer takes it."""
        if not makes_workers(self.function.instance, self.modules):
            return table.workers.get(role.name, UNKNOWN)
        is_sure = self.run.unknown == 0
        before = self.run.loaded.get(role.name)
        self.run.loaded[role.name] = True if is_sure or before is True else UNKNOWN
        return table.workers.get(role.name, UNKNOWN)

    def new_table(self, workers: dict[str, Value]) -> RoleTable:
        """A dictionary of workers by role."""
        return RoleTable(made_at=self.run.unknown, workers=workers)

    def result(self) -> Value:
        """What the function gives: one value, or nobody knows."""
        if not self.results:
            return None
        first = self.results[0]
        alike = all(it is first or is_same(it, first) for it in self.results[1:])
        return first if alike and self.returned else UNKNOWN

    # -- statements -----------------------------------------------------------------------------

    def body(self, statements: list[ast.stmt]) -> _End:
        """Follow statements in their order; behind one that may leave, the rest is not sure."""
        end = _End()
        for statement in statements:
            self.run.statements += 1
            if self.run.statements > _MOST_STATEMENTS:
                raise NotFollowedError
            one = self._statement(statement)
            if one.leaves:
                return _End(leaves=True, may_leave=True)
            if one.may_leave:
                self.run.unknown += 1  # until the function ends, see ProgramRun.follow
                end.may_leave = True
        return end

    def _statement(self, node: ast.stmt) -> _End:
        if isinstance(node, ast.If):
            return self._if(node)
        if isinstance(node, ast.Return):
            self.results.append(None if node.value is None else value_of(node.value, self))
            return _End(leaves=True)
        if isinstance(node, ast.Raise):
            if self.run.unknown == 0:
                raise NotFollowedError
            return _End(leaves=True)
        if isinstance(node, ast.Break | ast.Continue):
            return _End(leaves=True)
        if isinstance(node, ast.With | ast.AsyncWith):
            return self.body(node.body)
        if isinstance(node, ast.Try) and all(_ends_in_raise(one.body) for one in node.handlers):
            end = self.body([*node.body, *node.orelse])  # a job that goes on comes to no handler
            self.body(node.finalbody)
            return end
        bodies = [part for part in _bodies(node) if part]
        if bodies and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return self._unsure(node, bodies)
        self._plain(node)
        return _End()

    def _if(self, node: ast.If) -> _End:
        truth = truth_of(value_of(node.test, self))
        if truth is not UNKNOWN:
            return self.body(node.body if truth else node.orelse)
        raises = [_ends_in_raise(body) for body in (node.body, node.orelse)]
        if any(raises) and not all(raises):  # a job that goes on takes the other way
            return self.body(node.orelse if raises[0] else node.body)
        ends = self._both_ways(node)
        return _End(leaves=all(end.leaves for end in ends), may_leave=any(end.may_leave for end in ends))

    def _both_ways(self, node: ast.If) -> list[_End]:
        """Follow both ways; a name that is the same behind both of them is known."""
        before, made_at = dict(self.names), self.made_at
        ends, found = [], []
        with self._perhaps():
            self.made_at = self.run.unknown
            for way in (node.body, node.orelse):
                self.names = dict(before)
                ends.append(self.body(way))
                found.append(self.names)
                self.run.unknown = self.made_at
        self.made_at = made_at
        first, second = found
        self.names = {
            name: first[name] if _is_one(first, second, name) else UNKNOWN for name in {**first, **second}
        }
        return ends

    def _unsure(self, node: ast.stmt, bodies: list[list[ast.stmt]]) -> _End:
        """A loop, or what is tried: run any number of times, with names that nobody knows."""
        with self._perhaps():
            for target in _targets(node):
                assign(self, target, UNKNOWN)
            ends = [self.body(part) for _round in range(2) for part in bodies]
        returns = any(isinstance(part, ast.Return) for part in ast.walk(node))
        return _End(may_leave=returns and any(end.may_leave for end in ends))

    @contextmanager
    def _perhaps(self) -> Iterator[None]:
        before = self.run.unknown
        self.run.unknown = before + 1
        try:
            yield
        finally:
            self.run.unknown = before

    def _plain(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Expr):
            value_of(node.value, self)
        elif isinstance(node, ast.Assign):
            value = value_of(node.value, self)
            for target in node.targets:
                assign(self, target, value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            assign(self, node.target, value_of(node.value, self))
        elif isinstance(node, ast.AugAssign):
            assign(self, node.target, UNKNOWN)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                delete(self, target)
        elif isinstance(node, ast.ImportFrom):
            self._import(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            set_name(self, node.name, DefinedFunction(self.module, node))
        elif isinstance(node, ast.ClassDef):
            set_name(self, node.name, DefinedClass(self.module, node))

    def _import(self, node: ast.ImportFrom) -> None:
        for name, (source, there) in self.module.imported(node):
            set_name(self, name, ImportedName(source, there))


def makes_workers(made: Instance | None, modules: ProgramModules) -> bool:
    """Whether an object is a trainer, which makes the workers of its models."""
    return made is not None and modules.method(made.of.module, made.of.node, "init_workers") is not None


def _is_one(first: dict[str, Value], second: dict[str, Value], name: str) -> bool:
    if name not in first or name not in second:
        return False
    return first[name] is second[name] or is_same(first[name], second[name])


def _ends_in_raise(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise)


def _targets(node: ast.stmt) -> list[ast.expr]:
    return [node.target] if isinstance(node, ast.For | ast.AsyncFor) else []


def _bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, [])
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body
