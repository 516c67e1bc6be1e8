"""What the parts that follow a program share: the way through it, and the function that it is in."""

import ast
from typing import Protocol

from tuner.inputs.tree import Path
from tuner.trainers.verl.trainer_code.conditions import Operands
from tuner.trainers.verl.trainer_code.program_modules import ProgramModule, ProgramModules
from tuner.trainers.verl.trainer_code.program_values import (
    DefinedFunction,
    Instance,
    RoleName,
    RoleTable,
    Value,
)


class ProgramRunning(Protocol):
    """One way through a program."""

    unknown: int  # conditions that are not known around what is followed
    copied: bool  # there are several configurations, which are not told apart
    set_paths: dict[Path, Value]  # of the configuration, by the program
    made: list[Instance]
    uses: list[tuple[Value, Value]]  # classes of workers, and their sections
    pools: list[tuple[Value, Value]]  # of GPUs: their sizes, and those of roles

    def follow(self, function: DefinedFunction, given: dict[str, Value]) -> Value:
        """What a function gives for its arguments."""


class FollowedFrame(Operands, Protocol):
    """A function that is followed, with the names in it."""

    names: dict[str, Value]
    made_at: int  # how many unknown conditions stood around its call

    @property
    def run(self) -> ProgramRunning:
        """The way through the program."""

    @property
    def function(self) -> DefinedFunction:
        """What is followed."""

    @property
    def module(self) -> ProgramModule:
        """The file."""

    @property
    def modules(self) -> ProgramModules:
        """The files of the copy."""

    def read(self, path: Path) -> Value:
        """What the configuration has at a path."""

    def call(self, node: ast.Call) -> Value:
        """What a call gives."""

    def loads(self, role: RoleName, table: RoleTable) -> Value:
        """The worker of a role, which is taken from the table."""

    def new_table(self, workers: dict[str, Value]) -> RoleTable:
        """A dictionary of workers by role."""
