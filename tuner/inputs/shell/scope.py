"""What a shell remembers: variables, positional parameters, functions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from tuner.errors import Location
from tuner.inputs.machine import GPUS, TargetMachine
from tuner.inputs.shell.effort import Effort
from tuner.inputs.shell.either import Value, either_array, either_value, elements
from tuner.inputs.shell.source import Node, Source
from tuner.inputs.shell.undecided_parts import UndecidedPart, together
from tuner.inputs.shell.values import Text, Unknown, text

BLANKS = " \t\n"  # the separators of which several in a row part as one does


@dataclass(frozen=True)
class Function:
    """A function of the script: its body and the file that it stands in."""

    body: Node
    source: Source
    location: Location


class Assumed(Struct, frozen=True, kw_only=True):
    """A test of the machine that was answered as the one would that the configuration is read for."""

    text: str
    location: Location


@dataclass
class Scope:
    """The state of a shell. A copy is a subshell, or one of two branches that may be taken."""

    script: str  # "$0"
    arguments: tuple[Text, ...] = ()
    variables: dict[str, Value] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    unset: set[str] = field(default_factory=set)  # names that the script itself has unset
    exported: set[str] = field(default_factory=set)  # names that a process of its own gets
    exports_all: bool = False  # "set -a"
    assigned_at: dict[str, Location] = field(
        default_factory=dict
    )  # of the names that the script itself assigns
    effort: Effort = field(default_factory=Effort)  # of all copies together
    consulted: list[UndecidedPart] = field(default_factory=list)  # by conditions and sums, of all copies
    machine: TargetMachine = GPUS
    assumed: list[Assumed] = field(default_factory=list)  # of all copies
    optional: list[str] = field(default_factory=list)  # names that are taken for empty, of all copies
    decisions: Mapping[str, bool] = field(default_factory=dict)  # tests that are taken to hold or not
    open_loops: int = 0  # around the statement, whose ends nobody knows: what decides in them may change

    @property
    def separators(self) -> str | None:
        """What parts the words of a value, ``IFS``; None where that is not known."""
        value = self.variables.get("IFS")
        if value is None:
            return BLANKS
        return value.string if isinstance(value, Text) else None

    def copy(self) -> "Scope":
        """An equal state that changes apart from this one."""
        self.effort.copy_values(len(self.variables) + len(self.functions))
        return Scope(
            self.script,
            self.arguments,
            dict(self.variables),
            dict(self.functions),
            set(self.unset),
            set(self.exported),
            self.exports_all,
            dict(self.assigned_at),
            self.effort,
            self.consulted,
            self.machine,
            self.assumed,
            self.optional,
            self.decisions,
            self.open_loops,
        )

    def decide(self, test: UndecidedPart, equal: tuple[Unknown, str] | None = None) -> bool | None:
        """How a test ends that nobody knows, where one of its ends is taken to be so; else None.

        Args:
            test: what is not known.
            equal: what is not known and the text that it is where the test holds.
        """
        decided = None if self.open_loops else self.decisions.get(test.text)
        if decided is None:
            self.consulted.append(test)
        elif decided and equal is not None:
            unknown, value = equal
            if self.variables.get(unknown.name, Text((unknown,))) == Text((unknown,)):
                self.variables[unknown.name] = text(value)
        return decided

    def take(self, other: "Scope") -> None:
        """Become what another state is."""
        # In place: who assigns may have looked at the variables before a command ran in between.
        self.arguments = other.arguments
        for mine, theirs in ((self.variables, other.variables), (self.functions, other.functions)):
            if mine is not theirs:
                mine.clear()
                mine.update(theirs)  # type: ignore[arg-type]
        self.unset, self.exported = other.unset, other.exported
        self.assigned_at = other.assigned_at

    def enter_process(self, script: str, arguments: tuple[Text, ...]) -> None:
        """Become the state of a shell that this one starts, which gets what is exported."""
        if not self.exports_all:
            self.variables = {name: self.variables[name] for name in self.exported & self.variables.keys()}
        self.functions = {}
        self.script, self.arguments = script, arguments

    def merge(self, other: "Scope", place: Location, causes: Iterable[UndecidedPart] = ()) -> None:
        """Become the state after one of two branches, nobody knows which: what differs is unknown.

        Args:
            other: the state after the other branch.
            place: where they part.
            causes: what would tell which is taken.
        """
        for name in {*self.variables, *other.variables}:
            mine, theirs = self.variables.get(name), other.variables.get(name)
            if mine != theirs:
                because = together(causes, _undecided_parts(mine), _undecided_parts(theirs))
                unknown = Unknown(name=name, text=f"${name}", location=place, because=because)
                self.variables[name] = either_value(mine, theirs, unknown)
        self.functions = {**other.functions, **self.functions}
        self.unset &= other.unset
        self.exported |= other.exported
        self.assigned_at = {**other.assigned_at, **self.assigned_at}
        if self.arguments != other.arguments:
            because = together(causes, _undecided_parts(self.arguments), _undecided_parts(other.arguments))
            unknown = Unknown(name="", text="$@", location=place, because=because)
            self.arguments = elements(either_array(self.arguments, other.arguments, unknown))


def _undecided_parts(value: Value | None) -> tuple[UndecidedPart, ...]:
    """What would tell the parts of a value that are not known."""
    if value is None:
        return ()
    if isinstance(value, Text):
        return value.undecided_parts
    items = value.values() if isinstance(value, Mapping) else elements(value)
    return together(*(item.undecided_parts for item in items))
