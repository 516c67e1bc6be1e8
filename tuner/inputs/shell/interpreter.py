"""Follows a script statement by statement, on values alone."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from msgspec import Struct

from tuner.errors import InputError, Location
from tuner.inputs.shell.assignments import Assignments
from tuner.inputs.shell.branches import Branches
from tuner.inputs.shell.builtins import Builtins
from tuner.inputs.shell.carriers import PRINTERS, SHELLS, handed_line, is_script, shell_position
from tuner.inputs.shell.conditions import Conditions, Status, opposite
from tuner.inputs.shell.effort import MOST_CHARACTERS, MOST_STEPS, TooMuchError
from tuner.inputs.shell.exits import ExitShell, LeaveLoop, ReturnFromFunction
from tuner.inputs.shell.expansion import Expander
from tuner.inputs.shell.folders import python_folders
from tuner.inputs.shell.loops import Loops, in_background
from tuner.inputs.shell.machine import answer
from tuner.inputs.shell.scope import Assumed, Function, Scope
from tuner.inputs.shell.source import Node, Source, parse_to_follow
from tuner.inputs.shell.streams import Streams
from tuner.inputs.shell.undecided_parts import UndecidedKind, UndecidedPart, together
from tuner.inputs.shell.values import Field, Text, Unknown, text
from tuner.language import _

_DEEPEST = 40  # functions, substitutions and files within each other
_NOTHING = frozenset({"comment", "heredoc_body"})


class StartedProgram(Struct, frozen=True, kw_only=True):
    """A program that the script starts."""

    words: tuple[Field, ...]
    environment: tuple[tuple[str, Text], ...]  # assignments in front of it
    location: Location
    certain: bool  # no branch that nobody knows leads to it
    doubts: tuple[UndecidedPart, ...] = ()  # what is not run that would tell whether such a branch is taken
    folders: tuple[str, ...] = ()  # that it runs in and that Python looks for modules in, as far as is known


class Interpreter:
    """Follows one script.

    Args:
        scope: the arguments, and variables that are given.
        read: name and content of a file that the script sources, None where it is not to be had.
    """

    def __init__(self, scope: Scope, read: Callable[[str], tuple[str, bytes] | None]) -> None:
        self.scope = scope
        self.source = parse_to_follow(scope.script, b"")
        self.uncertain = 0  # branches around the statement that nobody knows whether they are taken
        self.doubts: list[UndecidedPart] = []  # what is not run that would tell
        self.given_up: list[UndecidedPart] = []  # loops, and commands that other commands print
        self.commands: list[StartedProgram] = []
        self.not_read: list[Unknown] = []
        self._read = read
        self._at: tuple[Source, Node] | None = None  # the last statement
        self._depth = 0
        self._builtins = Builtins(self)
        self._assignments = Assignments(self)
        self._branches = Branches(self)
        self._loops = Loops(self, self._branches)
        self.streams = Streams(self)
        self._table: dict[str, Callable[[Node], Status]] = {
            "command": self._command,
            "compound_statement": self._compound,
            "declaration_command": lambda node: self._assignments.declare(node, self.expander(), self.source),
            "function_definition": self._define,
            "negated_command": lambda node: opposite(self.statement(node.named_children[0])),
            "subshell": lambda node: self.apart(partial(self.run_all, node.children)),
            "test_command": lambda node: self._conditions(node).test(node),
            "unset_command": self._unset,
            "variable_assignment": self._assign,
            **self._branches.table,
            **self._loops.table,
            **self.streams.table,
        }

    def follow(self, source: Source) -> None:
        """Follow a whole script.

        Raises:
            InputError: the script takes more work than a launch script would.
        """
        try:
            with contextlib.suppress(ExitShell, LeaveLoop, ReturnFromFunction):
                self._within(source)
        except TooMuchError:
            raise InputError(
                _(
                    "the script takes more than {steps:,} steps, or makes values of {characters:,} characters"
                ).format(steps=MOST_STEPS, characters=MOST_CHARACTERS),
                location=None if self._at is None else self._at[0].location(self._at[1]),
                hint=_("give the command that starts the trainer alone, with the values that it gets"),
            ) from None

    def take_apart(self) -> None:
        """Follow nothing any more: parts that know each other would stay until garbage is looked for."""
        for part in (self._assignments, self._builtins, self._branches, self._loops, self.streams, self):
            vars(part).clear()

    def statement(self, node: Node) -> Status:
        """Follow one statement."""
        if node.type in _NOTHING or not node.is_named:
            return True
        self._at = self.source, node
        self.scope.effort.spend()
        follow = self._table.get(node.type)
        return self.run_all(node.children) if follow is None else follow(node)

    def run_all(self, nodes: Iterable[Node]) -> Status:
        """Follow statements one after another; the status is the last one's."""
        status: Status = True
        for node in nodes:
            status = self.statement(node)
        return status

    def apart(self, run: Callable[[], Status]) -> Status:
        """Follow what runs in a process of its own: nothing that it assigns comes back."""
        outside = self.scope.copy()
        try:
            return run()
        except ExitShell as left:
            return left.status
        finally:
            self.scope.take(outside)

    def deeper(self, run: Callable[[], Status], place: Location) -> Status:
        """Follow something that may lead to itself.

        Raises:
            InputError: it does.
        """
        if self._depth >= _DEEPEST:
            raise InputError(_("the script calls itself too deeply"), location=place)
        self._depth += 1
        try:
            return run()
        finally:
            self._depth -= 1

    def expander(self) -> Expander:
        """What expands words at this point."""
        return Expander(self.scope, self.source, self.streams.substituted)

    def evaluate(self, content: str, place: Location) -> Status:
        """Follow a text that the script makes: ``eval``, ``bash -c``."""
        self.scope.effort.parse(len(content))
        return self._within(
            parse_to_follow(place.source, content.encode("utf-8", "surrogateescape"), first=place)
        )

    def source_file(self, name: Text, arguments: Sequence[Text], place: Location) -> Status:
        """Follow another file in the same scope."""
        self.scope.effort.look_for_file()
        content = None if name.string is None else self._read(name.string)
        if content is None:
            if str(name).startswith("<("):
                self.skip(str(name), place)
            else:
                self.not_read.append(Unknown(name="", text=str(name), location=place))
            return None
        self.scope.effort.parse(len(content[1]))
        before = self.scope.arguments
        self.scope.arguments = tuple(arguments) or before
        try:
            return self._within(parse_to_follow(*content))
        except ReturnFromFunction as left:
            return left.status
        finally:
            self.scope.arguments = before

    def skip(self, text: str, place: Location) -> None:
        """Note commands that other commands print: what they set is not known."""
        self.given_up.append(UndecidedPart(kind=UndecidedKind.SOURCED, text=text, location=place))

    def _within(self, source: Source) -> Status:
        before, self.source = self.source, source
        try:
            return self.deeper(partial(self.run_all, source.root.children), source.location(source.root))
        finally:
            self.source = before

    def _conditions(self, node: Node) -> Conditions:
        return Conditions(self.scope, self.source, self.expander(), self.source.location(node))

    def _compound(self, node: Node) -> Status:
        if node.children[0].type == "((":
            return self._conditions(node).arithmetic(node.named_children)
        return self.run_all(node.children)

    def _assign(self, node: Node) -> Status:
        self._assignments.assign(node, self.expander(), self.source)
        return True

    def _unset(self, node: Node) -> Status:
        expander = self.expander()
        for field in expander.fields(node.named_children):
            word = field.text.string
            if word is not None and not word.startswith("-"):
                self._assignments.unset(word, expander, field.location)
        return True

    def _define(self, node: Node) -> Status:
        self.scope.functions[self.source.of(node.child_by_field_name("name"))] = Function(
            body=node.child_by_field_name("body"), source=self.source, location=self.source.location(node)
        )
        return True

    def _command(self, node: Node) -> Status:
        expander = self.expander()
        environment: list[tuple[str, Text]] = []
        words = []
        for child in node.children:
            if child.type == "variable_assignment":
                empty = child.children[-1].type == "="
                value = Text() if empty else expander.expand_to_string(child.children[-1])
                environment.append((self.source.of(child.children[0]), value))
            elif child.type == "herestring_redirect":
                self.streams.given = text(expander.expand_to_string(child.named_children[-1]), "\n")
            elif "redirect" not in child.type and child.type != "comment":
                words.append(child)
        fields = expander.fields(words)
        if fields and fields[0].text.string == "exec":
            return self._exec(fields[1:], environment, node)
        if fields:
            return self._run(fields, environment, self.source.location(node))
        self.scope.variables.update(environment)
        return True

    def _exec(self, words: list[Field], environment: list[tuple[str, Text]], node: Node) -> Status:
        """``exec program``, behind which nothing runs; without a program only redirections count."""
        while words and str(words[0].text).startswith("-"):
            words = words[2:] if words[0].text.string == "-a" else words[1:]
        if not words:
            return True
        status = self._run(words, environment, self.source.location(node))
        if in_background(node):
            return status
        raise ExitShell(status)

    def _run(self, words: list[Field], environment: list[tuple[str, Text]], place: Location) -> Status:
        name = words[0].text.string or ""
        function = self.scope.functions.get(name)
        if function is not None:
            return self._call(function, [word.text for word in words[1:]], environment)
        builtin = self._builtins.named(name)
        if builtin is not None:
            return builtin(words[1:], place)
        if name.rpartition("/")[2] in SHELLS:
            return self._shell(words, environment, place)
        if is_script(name) and self._read(name) is not None:
            return self._shell([words[0], *words], environment, place)
        position = shell_position(words)
        if position is not None:
            return self._shell(words[position:], environment, place)
        line = handed_line(words)
        if line is not None:
            return self.apart(lambda: self._builtins.evaluate(line.text, line.location))
        return self._start(words, environment, place)

    def _call(
        self, function: Function, arguments: Sequence[Text], environment: Sequence[tuple[str, Text]]
    ) -> Status:
        before, source, outside = self.scope.arguments, self.source, dict(self.scope.variables)
        self.scope.variables.update(environment)
        self.scope.arguments, self.source = tuple(arguments), function.source
        self._assignments.local_names.append(set())
        try:
            return self.deeper(partial(self.statement, function.body), function.location)
        except ReturnFromFunction as left:
            return left.status
        finally:
            for name in self._assignments.local_names.pop() | {name for name, _ in environment}:
                self.scope.variables.pop(name, None)
                if name in outside:
                    self.scope.variables[name] = outside[name]
            self.scope.arguments, self.source = before, source

    def _shell(self, words: list[Field], environment: list[tuple[str, Text]], place: Location) -> Status:
        """``bash script arguments`` and ``bash -c text``: followed where the script or text is known."""
        options = [word for word in words[1:] if str(word.text).startswith(("-", "+"))]
        rest = [word for word in words[1:] if word not in options]
        if not rest:
            return self._start(words, environment, place)

        def run() -> Status:
            self.scope.variables.update(environment)
            self.scope.exported.update(name for name, _value in environment)
            values = tuple(word.text for word in rest)
            if any(str(option.text).endswith("c") for option in options):
                self.scope.enter_process(str(values[1]) if len(values) > 1 else before, values[2:])
                return self._builtins.evaluate(rest[0].text, rest[0].location)
            self.scope.enter_process(str(values[0]), values[1:])
            return self.source_file(rest[0].text, (), place)

        before = self.scope.script
        try:
            return self.apart(run)
        finally:
            self.scope.script = before

    def _start(
        self, words: Sequence[Field], environment: Sequence[tuple[str, Text]], place: Location
    ) -> Status:
        """Note a program that is started, or what it prints where somebody reads that."""
        values = [word.text for word in words]
        if not self.streams.printed_by(values, place) and values[0].string not in PRINTERS:
            self.commands.append(
                StartedProgram(
                    words=tuple(words),
                    environment=tuple(environment),
                    location=place,
                    certain=not self.uncertain,
                    doubts=together(self.doubts),
                    folders=python_folders(self.scope, environment),
                )
            )
        status, from_machine = answer(values, self.scope.machine)
        if status is None:
            line = " ".join(" ".join(map(str, values)).split())
            status = self.scope.decide(UndecidedPart(kind=UndecidedKind.STATUS, text=line, location=place))
        if from_machine:
            self.scope.assumed.append(Assumed(text=" ".join(map(str, values)), location=place))
        return status
