"""Simple commands of a script: its functions, the shell's builtins, further shells, and programs.

Source: GNU Bash manual, "Simple Commands" and "Command Search and Execution".
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tuner.errors import Location
from tuner.inputs.shell.assignments import Assignments
from tuner.inputs.shell.builtins import Builtins
from tuner.inputs.shell.carriers import PRINTERS, SHELLS, handed_line, is_script, shell_position
from tuner.inputs.shell.conditions import Status
from tuner.inputs.shell.exits import ExitShell, ReturnFromFunction
from tuner.inputs.shell.expansion import Expander
from tuner.inputs.shell.folders import folder_spelling, python_folders, search_path
from tuner.inputs.shell.installed_folders import installed_folders
from tuner.inputs.shell.machine import answer
from tuner.inputs.shell.passed_variables import environment_of
from tuner.inputs.shell.placements import placing
from tuner.inputs.shell.scope import Assumed, Function, Scope
from tuner.inputs.shell.source import Node, Source
from tuner.inputs.shell.started_program import StartedProgram
from tuner.inputs.shell.streams import Streams
from tuner.inputs.shell.undecided_parts import UndecidedKind, UndecidedPart, together
from tuner.inputs.shell.values import Field, Text, text
from tuner.inputs.shell.visible_devices import exported_devices
from tuner.inputs.shell.written_files import WrittenFiles, handed_script

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tuner.inputs.shell.branches import LeftApart


class CommandShell(Protocol):
    """What commands need of the interpreter."""

    scope: Scope
    source: Source
    streams: Streams
    uncertain: int  # branches around the statement that nobody knows whether they are taken
    beside: int  # statements around it that run beside the script
    doubts: list[UndecidedPart]  # what is not run that would tell
    commands: list[StartedProgram]
    written: WrittenFiles

    def statement(self, node: Node) -> Status:
        """Follow one statement."""

    def apart(self, run: Callable[[], Status]) -> Status:
        """Follow what runs in a process of its own."""

    def deeper(self, run: Callable[[], Status], place: Location) -> Status:
        """Follow something that may lead to itself."""

    def leaving_apart(self) -> "AbstractContextManager[list[LeftApart]]":
        """Follow a function, with a list of where it may be left."""

    def expander(self) -> Expander:
        """What expands words at this point."""

    def source_file(self, name: Text, arguments: Sequence[Text], place: Location) -> Status:
        """Follow another file in the same scope."""


class SimpleCommands:
    """The simple commands of one interpreter.

    Args:
        shell: the interpreter.
        builtins: of the same one.
        assignments: of the same one.
        read: name and content of a file, None where it is not to be had.
    """

    def __init__(
        self,
        shell: CommandShell,
        builtins: Builtins,
        assignments: Assignments,
        read: Callable[[str], tuple[str, bytes] | None],
    ) -> None:
        self._shell = shell
        self._builtins = builtins
        self._assignments = assignments
        self._read = read

    def command(self, node: Node) -> Status:
        """Follow one command, with the assignments in front of it and what it is given to read."""
        given = self._shell.streams.given
        try:
            return self._command(node)
        finally:
            if any(child.type == "herestring_redirect" for child in node.children):
                self._shell.streams.given = given

    def _command(self, node: Node) -> Status:
        expander = self._shell.expander()
        environment: list[tuple[str, Text]] = []
        words = []
        for child in node.children:
            if child.type == "variable_assignment":
                empty = child.children[-1].type == "="
                value = Text() if empty else expander.expand_to_string(child.children[-1])
                environment.append((self._shell.source.of(child.children[0]), value))
            elif child.type == "herestring_redirect":
                self._shell.streams.given = text(expander.expand_to_string(child.named_children[-1]), "\n")
            elif "redirect" not in child.type and child.type != "comment":
                words.append(child)
        fields = expander.fields(words)
        if fields and fields[0].text.string == "exec":
            return self._exec(fields[1:], environment, node)
        if fields:
            return self._run(fields, environment, self._shell.source.location(node))
        self._shell.scope.variables.update(environment)
        return True

    def _exec(self, words: list[Field], environment: list[tuple[str, Text]], node: Node) -> Status:
        """``exec program``, behind which nothing runs; without a program only redirections count."""
        while words and str(words[0].text).startswith("-"):
            words = words[2:] if words[0].text.string == "-a" else words[1:]
        if not words:
            return True
        status = self._run(words, environment, self._shell.source.location(node))
        if self._shell.beside:
            return status
        raise ExitShell(status)

    def _run(self, words: list[Field], environment: list[tuple[str, Text]], place: Location) -> Status:
        name = words[0].text.string or ""
        function = self._shell.scope.functions.get(name)
        if function is not None:
            return self._call(function, [word.text for word in words[1:]], environment)
        builtin = self._builtins.named(name)
        if builtin is not None:
            with self._with_environment(environment):
                return builtin(words[1:], place)
        if name.rpartition("/")[2] in SHELLS:
            return self._run_shell(words, environment, place)
        if self._shell.written.read(words[0].text, place) is not None:
            return self._run_shell([words[0], *words], environment, place)
        if is_script(name) and self._read(name) is not None:
            return self._run_shell([words[0], *words], environment, place)
        position = shell_position(words)
        if position is not None:
            return self._run_shell(words[position:], environment, place)
        handed = handed_script(words, self._shell.written)
        if handed is not None:
            return self._run_shell(words[handed - 1 :], environment, place)
        line = handed_line(words)
        if line is not None:
            return self._shell.apart(lambda: self._builtins.evaluate(line.text, line.location))
        return self._start(words, environment, place)

    @contextmanager
    def _with_environment(self, environment: Sequence[tuple[str, Text]]) -> Iterator[None]:
        """``IFS=, read``: what stands in front of a builtin counts as long as that runs."""
        variables = self._shell.scope.variables
        outside = {name: variables.get(name) for name, _value in environment}
        variables.update(environment)
        try:
            yield
        finally:
            for name, value in outside.items():
                if value is None:
                    self._shell.scope.variables.pop(name, None)
                else:
                    self._shell.scope.variables[name] = value

    def _call(
        self, function: Function, arguments: Sequence[Text], environment: Sequence[tuple[str, Text]]
    ) -> Status:
        before, source, outside = (
            self._shell.scope.arguments,
            self._shell.source,
            dict(self._shell.scope.variables),
        )
        self._shell.scope.variables.update(environment)
        self._shell.scope.arguments, self._shell.source = tuple(arguments), function.source
        self._assignments.local_names.append(set())
        try:
            with self._shell.leaving_apart():
                return self._shell.deeper(partial(self._shell.statement, function.body), function.location)
        except ReturnFromFunction as left:
            return left.status
        finally:
            for name in self._assignments.local_names.pop() | {name for name, _ in environment}:
                self._shell.scope.variables.pop(name, None)
                if name in outside:
                    self._shell.scope.variables[name] = outside[name]
            self._shell.scope.arguments, self._shell.source = before, source

    def _run_shell(self, words: list[Field], environment: list[tuple[str, Text]], place: Location) -> Status:
        """``bash script arguments`` and ``bash -c text``: followed where the script or text is known."""
        options = [word for word in words[1:] if str(word.text).startswith(("-", "+"))]
        rest = [word for word in words[1:] if word not in options]
        if not rest:
            return self._start(words, environment, place)

        def run() -> Status:
            self._shell.scope.variables.update(environment)
            self._shell.scope.exported.update(name for name, _value in environment)
            values = tuple(word.text for word in rest)
            if any(str(option.text).endswith("c") for option in options):
                self._shell.scope.enter_process(str(values[1]) if len(values) > 1 else before, values[2:])
                return self._builtins.evaluate(rest[0].text, rest[0].location)
            self._shell.scope.enter_process(str(values[0]), values[1:])
            if written is not None:
                return self._builtins.evaluate(written.text, written.location)
            return self._shell.source_file(rest[0].text, (), place)

        written = self._shell.written.read(rest[0].text, place)
        before = self._shell.scope.script
        try:
            return self._shell.apart(run)
        finally:
            self._shell.scope.script = before

    def _start(
        self, words: Sequence[Field], environment: Sequence[tuple[str, Text]], place: Location
    ) -> Status:
        """Note a program that is started, or what it prints where somebody reads that."""
        values = [word.text for word in words]
        self._shell.written.changed_by(words)
        if not self._shell.streams.printed_by(values, place) and values[0].string not in PRINTERS:
            typed = [str(value) for value in values]
            spell = partial(folder_spelling, scope=self._shell.scope, place=place)
            self._shell.commands.append(
                StartedProgram(
                    words=tuple(words),
                    environment=(*exported_devices(self._shell.scope), *environment),
                    assigned=tuple(environment),
                    location=place,
                    certain=not self._shell.uncertain,
                    doubts=together(self._shell.doubts),
                    folders=python_folders(self._shell.scope, environment),
                    variables=environment_of(self._shell.scope, environment, words, place, self._read),
                    search=search_path(self._shell.scope, environment, place),
                    placing=placing(typed, spell, place, certain=not self._shell.uncertain),
                    installs=installed_folders(typed, spell),
                )
            )
        status, from_machine = answer(values, self._shell.scope.machine)
        if status is None:
            line = " ".join(" ".join(map(str, values)).split())
            status = self._shell.scope.decide(
                UndecidedPart(kind=UndecidedKind.STATUS, text=line, location=place)
            )
        if from_machine:
            self._shell.scope.assumed.append(Assumed(text=" ".join(map(str, values)), location=place))
        return status
