"""Loops of a script: one whose end is not known is followed for one round."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tuner.inputs.shell.branches import Branches, BranchShell
from tuner.inputs.shell.conditions import Status, opposite
from tuner.inputs.shell.effort import TooMuchError
from tuner.inputs.shell.exits import ExitShell, LeaveLoop, ReturnFromFunction
from tuner.inputs.shell.source import Node
from tuner.inputs.shell.undecided_parts import UndecidedKind, UndecidedPart

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tuner.inputs.shell.branches import LeftApart
    from tuner.inputs.shell.long_loop import LongLoop

MOST_ROUNDS = 1_000  # of one loop
_ENDLESS = (["true"], [":"], ["[ 1 ]"], ["[[ 1 ]]"], ["((1))"], ["(( 1 ))"], ["[ true ]"], ["[[ true ]]"])
_ROUNDS_BESIDE = 10  # of one that watches a server while the script goes on, and never ends by itself


class LoopShell(BranchShell, Protocol):
    """What loops need of the interpreter."""

    given_up: list[UndecidedPart]  # loops that were followed no further
    too_long: "LongLoop | None"  # that took more work than a script may
    beside: int  # statements around this one that run beside the script: a "&" stands behind them

    def leaving_apart(self) -> "AbstractContextManager[list[LeftApart]]":
        """Follow a loop, with a list of where it may be left."""


class Loops:
    """Loops of one interpreter.

    Args:
        shell: the interpreter.
        branches: of the same one.
    """

    def __init__(self, shell: LoopShell, branches: Branches) -> None:
        self._shell, self._branches = shell, branches
        self.table: dict[str, Callable[[Node], Status]] = {
            "c_style_for_statement": partial(
                self._named, partial(self._in_open_loop, partial(self._with_breaks, self._counted))
            ),
            "for_statement": partial(self._named, partial(self._with_breaks, self._for)),
            "while_statement": partial(self._named, partial(self._in_open_loop, self._while)),
        }

    def _named(self, follow: Callable[[Node], Status], node: Node) -> Status:
        """Follow a loop, which is named where that takes too much: the outermost one at last."""
        source = self._shell.source
        try:
            with self._shell.leaving_apart():
                return follow(node)
        except TooMuchError:
            from tuner.inputs.shell.long_loop import long_loop  # of few scripts

            self._shell.too_long = long_loop(node, source, self._shell.scope)
            raise

    def _with_breaks(self, follow: Callable[[Node], Status], node: Node) -> Status:
        """Follow a loop, behind which the script is also as at each ``break`` that may be reached.

        A loop that looks for a file, or waits for a server, leaves the script only where no round has
        found it: ``for c in a b; do [ -d $c ] && break; done``.
        """
        try:
            status = follow(node)
        except (ExitShell, ReturnFromFunction):
            breaks = [left for left in self._shell.left_apart if left.breaks]
            if not breaks:
                raise
            self._shell.scope.take(breaks[0].scope)
            status = None
        for left in self._shell.left_apart:
            if left.breaks:
                self._shell.scope.merge(left.scope, self._shell.source.location(node), left.causes)
        return status

    def _for(self, node: Node) -> Status:
        name = self._shell.source.of(node.child_by_field_name("variable"))
        body = node.child_by_field_name("body")
        words = [
            child
            for child in node.named_children
            if child.type not in ("variable_name", "do_group", "comment") and child != body
        ]
        has_list = any(child.type == "in" for child in node.children)
        fields = (
            [field.text for field in self._shell.expander().fields(words)]
            if has_list
            else self._shell.scope.arguments
        )
        for value in fields[:MOST_ROUNDS]:
            self._shell.scope.variables[name] = value
            if not self._round(body):
                return True
        if len(fields) > MOST_ROUNDS:
            self._give_up(node)
        return True

    def _counted(self, node: Node) -> Status:
        parts: list[list[Node]] = [[]]
        body = node.child_by_field_name("body")
        for child in node.children:
            if child.type == "))":
                break
            if child.type == ";":
                parts.append([])
            elif child.is_named:
                parts[-1].append(child)
        first, condition, step = [*parts, [], [], []][:3]
        self._arithmetic(first)
        for _ in range(MOST_ROUNDS):
            before = len(self._shell.scope.consulted)
            status = self._branches.conditions(node).arithmetic(condition)
            if status is None:
                return self._branches.maybe(
                    node, partial(self._round, body), self._branches.consulted(before)
                )
            if not status or not self._round(body):
                return True
            self._arithmetic(step)
        self._give_up(node)
        return True

    def _in_open_loop(self, follow: Callable[[Node], Status], node: Node) -> Status:
        """Follow a loop whose rounds may differ in what decides."""
        self._shell.scope.open_loops += 1
        try:
            return follow(node)
        finally:
            self._shell.scope.open_loops -= 1

    def _arithmetic(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node.type == "variable_assignment":
                self._shell.statement(node)
            else:
                self._shell.expander().number(node)

    def _while(self, node: Node) -> Status:
        body = node.child_by_field_name("body")
        conditions = [child for child in node.named_children if child != body]
        until = node.children[0].type == "until"
        endless = [self._shell.source.of(condition) for condition in conditions] in _ENDLESS
        for _ in range(_ROUNDS_BESIDE if endless and self._shell.beside else MOST_ROUNDS):
            before = len(self._shell.scope.consulted)
            status = self._shell.run_all(conditions)
            status = opposite(status) if until else status
            if status is None:
                return self._branches.maybe(
                    node, partial(self._round, body), self._branches.consulted(before)
                )
            if not status or not self._round(body):
                return True
            if endless and self._may_be_left(node):
                return None
        self._give_up(node)
        return True

    def _may_be_left(self, loop: Node) -> bool:
        """Whether what nobody knows ends a loop that nothing else does; the script is then as after a round.

        Such a loop waits for something: for a server, or for the other nodes.
        """
        left_apart = self._shell.left_apart
        for left in left_apart:
            self._shell.scope.merge(left.scope, self._shell.source.location(loop), left.causes)
        return bool(left_apart)

    def _give_up(self, loop: Node) -> None:
        """Note a loop that goes on, unless it runs beside the script."""
        if not self._shell.beside:
            body, source = loop.child_by_field_name("body"), self._shell.source
            head = " ".join(source.between(loop.start_byte, body.start_byte).split()).removesuffix(";")
            cause = UndecidedPart(kind=UndecidedKind.LOOP, text=head, location=source.location(loop))
            if cause not in self._shell.given_up:
                self._shell.given_up.append(cause)

    def _round(self, body: Node) -> bool:
        """Follow a loop's body once; False where the loop is left."""
        try:
            self._shell.run_all(body.children)
        except LeaveLoop as left:
            return not left.ends
        return True
