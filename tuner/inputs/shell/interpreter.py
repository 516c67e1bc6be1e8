"""Follows a script statement by statement, on values alone."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tuner.errors import InputError, Location
from tuner.inputs.shell.assignments import Assignments
from tuner.inputs.shell.branches import Branches, LeftApart
from tuner.inputs.shell.builtins import Builtins
from tuner.inputs.shell.conditions import Conditions, Status, opposite
from tuner.inputs.shell.effort import MOST_CHARACTERS, MOST_STEPS, TooMuchError
from tuner.inputs.shell.exits import ExitShell, LeaveLoop, ReturnFromFunction
from tuner.inputs.shell.expansion import Expander
from tuner.inputs.shell.loops import Loops
from tuner.inputs.shell.scope import Function, Scope
from tuner.inputs.shell.simple_commands import SimpleCommands
from tuner.inputs.shell.source import Node, Source, parse_to_follow
from tuner.inputs.shell.started_program import StartedProgram
from tuner.inputs.shell.streams import Streams
from tuner.inputs.shell.undecided_parts import UndecidedKind, UndecidedPart
from tuner.inputs.shell.values import Text, Unknown
from tuner.inputs.shell.written_files import WrittenFiles
from tuner.language import _

if TYPE_CHECKING:
    from tuner.inputs.shell.long_loop import LongLoop

_DEEPEST = 40  # functions, substitutions and files within each other
_NOTHING = frozenset({"comment", "heredoc_body"})


def too_much(location: Location | None, loop: "LongLoop | None" = None) -> InputError:
    """What is said of a script that makes more work than a launch script would.

    Args:
        location: where following it ended.
        loop: in which that was.
    """
    hint = _("give the command that starts the trainer alone, with the values that it gets")
    if loop is not None:
        hint = _("{loop}; or {hint}").format(loop=loop.hint, hint=hint)
    return InputError(
        _("the script takes more than {steps:,} steps, or makes values of {characters:,} characters").format(
            steps=MOST_STEPS, characters=MOST_CHARACTERS
        ),
        location=location,
        hint=hint,
    )


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
        self.beside = 0  # statements around the statement behind which a "&" stands
        self.doubts: list[UndecidedPart] = []  # what is not run that would tell
        self.left_apart: list[LeftApart] = []  # where the loop or the function around may be left
        self.given_up: list[UndecidedPart] = []  # loops, and commands that other commands print
        self.too_long: LongLoop | None = None  # the outermost loop in which following took too much
        self.commands: list[StartedProgram] = []
        self.not_read: list[Unknown] = []
        self.failed_at: Location | None = None  # the script's own ``exit`` with another status than 0
        self._read = read
        self._at: tuple[Source, Node] | None = None  # the last statement
        self._depth = 0
        self.written = WrittenFiles(self)
        self._builtins = Builtins(self)
        self._assignments = Assignments(self)
        self._simple_commands = SimpleCommands(self, self._builtins, self._assignments, read)
        self._branches = Branches(self)
        self._loops = Loops(self, self._branches)
        self.streams = Streams(self)
        self._table: dict[str, Callable[[Node], Status]] = {
            "command": self._simple_commands.command,
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
            with contextlib.suppress(LeaveLoop, ReturnFromFunction):
                self._within(source)
        except ExitShell as left:
            self.failed_at = left.place if left.status is False else None
        except TooMuchError:
            place = None if self._at is None else self._at[0].location(self._at[1])
            raise too_much(place, self.too_long) from None

    def take_apart(self) -> None:
        """Follow nothing any more: parts that know each other would stay until garbage is looked for."""
        parts = (self._assignments, self._builtins, self._simple_commands, self._branches, self._loops)
        for part in (*parts, self.streams, self.written, self):
            vars(part).clear()

    def statement(self, node: Node) -> Status:
        """Follow one statement."""
        if not _is_followed(node):
            return True
        self._at = self.source, node
        self.scope.effort.spend()
        follow = self._table.get(node.type)
        behind = node.next_sibling
        beside = behind is not None and behind.type == "&"
        self.beside += beside
        try:
            return self.run_all(node.children) if follow is None else follow(node)
        finally:
            self.beside -= beside

    def run_all(self, nodes: Iterable[Node]) -> Status:
        """Follow statements one after another; the status is the last one's, whatever closes them."""
        status: Status = True
        for node in nodes:
            if _is_followed(node):
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

    @contextlib.contextmanager
    def leaving_apart(self) -> Iterator[list[LeftApart]]:
        """Follow a loop or a function, with a list of where it may be left and nothing else is."""
        outside, self.left_apart = self.left_apart, []
        try:
            yield self.left_apart
        finally:
            self.left_apart = outside

    def go_on(self, joined_list: Node, first: Status, before: int) -> Status:
        """Follow what stands behind ``&&`` or ``||``, after the status of what stands before it."""
        return self._branches.go_on(joined_list, first, before)

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
        """Follow another file in the same scope; one that the script has written has that text."""
        written = self.written.read(name, place)
        if written is not None:
            known = written
            return self._sourced(lambda: self._builtins.evaluate(known.text, known.location), arguments)
        self.scope.effort.look_for_file()
        content = None if name.string is None else self._read(name.string)
        if content is None:
            if str(name).startswith("<("):
                self.skip(str(name), place)
            else:
                self.not_read.append(Unknown(name="", text=str(name), location=place))
            return None
        self.scope.effort.parse(len(content[1]))
        return self._sourced(lambda: self._within(parse_to_follow(*content)), arguments)

    def _sourced(self, run: Callable[[], Status], arguments: Sequence[Text]) -> Status:
        """Follow what ``source`` runs, which may have arguments of its own and may return."""
        before = self.scope.arguments
        self.scope.arguments = tuple(arguments) or before
        try:
            return run()
        except ReturnFromFunction as left:
            return left.status
        finally:
            self.scope.arguments = before

    def skip(self, text: str, place: Location, file: str = "") -> None:
        """Note commands that other commands print, of a file: what they set is not known."""
        part = UndecidedPart(kind=UndecidedKind.SOURCED, text=text, location=place, file=file)
        self.given_up.append(part)

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


def _is_followed(node: Node) -> bool:
    """Whether a node is a statement: no brace or separator, no comment."""
    return node.is_named and node.type not in _NOTHING
