"""Branches of a script, where what decides may not be known.

Of two branches of which nobody knows which is taken both are followed, each on a copy of the variables,
and what they leave different is unknown afterwards.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from tuner.errors import Location
from tuner.inputs.shell.conditions import Conditions, Status, both, either
from tuner.inputs.shell.exits import ExitShell, LeaveLoop, ReturnFromFunction
from tuner.inputs.shell.expansion import Expander
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.source import Node, Source
from tuner.inputs.shell.undecided_parts import UndecidedPart, together
from tuner.inputs.shell.values import Text, text


class Outlet(Protocol):
    """What branches print to."""

    def outside(self) -> int:
        """How much is printed before a branch."""

    def printed_since(self, outside: int) -> Text:
        """Take back what a branch printed."""

    def print_either(self, one: Text, two: Text, place: Location, causes: tuple[UndecidedPart, ...]) -> None:
        """Print what one of two branches does."""


class BranchShell(Protocol):
    """What branches need of the interpreter."""

    scope: Scope
    source: Source
    streams: Outlet
    uncertain: int  # branches around the statement that nobody knows whether they are taken
    doubts: list[UndecidedPart]  # what would tell whether these are taken
    left_apart: list["LeftApart"]  # where the loop or the function around may be left, in their order

    def statement(self, node: Node) -> Status:
        """Follow one statement."""

    def run_all(self, nodes: Iterable[Node]) -> Status:
        """Follow statements one after another; the status is the last one's."""

    def expander(self) -> Expander:
        """What expands words at this point."""


class LeftApart(NamedTuple):
    """How a script is at a ``break`` or a ``return`` of which nobody knows whether it is reached."""

    scope: Scope
    causes: tuple[UndecidedPart, ...]
    breaks: bool  # the script goes on behind the loop


class Branches:
    """Branches of one interpreter."""

    def __init__(self, shell: BranchShell) -> None:
        self._shell = shell
        self.table: dict[str, Callable[[Node], Status]] = {
            "case_statement": self._case,
            "if_statement": lambda node: self._branches(self._clauses(node)),
            "list": self._list,
        }

    def _list(self, node: Node) -> Status:
        left, operator, right = node.children[0], node.children[1].type, node.children[-1]
        before = len(self._shell.scope.consulted)
        if operator == "||" and left.type == "list" and left.children[1].type == "&&":
            return self._either_command(node, left, right)
        first = self._shell.statement(left)
        return self._joined(node, first, operator, right, self.consulted(before))

    def go_on(self, node: Node, first: Status, before: int) -> Status:
        """Follow the right side of a list.

        Args:
            node: the list.
            first: the status of what stands left of it.
            before: how much was consulted before that.
        """
        return self._joined(node, first, node.children[1].type, node.children[-1], self.consulted(before))

    def _joined(
        self, node: Node, first: Status, operator: str, right: Node, causes: tuple[UndecidedPart, ...]
    ) -> Status:
        """What stands behind ``&&`` or ``||``, after the status of what stands before it."""
        if first is None:
            second = self.maybe(node, partial(self._shell.statement, right), causes)
        elif first is (operator == "&&"):
            second = self._shell.statement(right)
        else:
            return first
        return both(first, second) if operator == "&&" else either(first, second)

    def _either_command(self, node: Node, chain: Node, right: Node) -> Status:
        """``condition && command || other``: one of the two, where the command succeeds."""
        before = len(self._shell.scope.consulted)
        condition = self._shell.statement(chain.children[0])
        causes = self.consulted(before)
        if condition is False:
            return self._shell.statement(right)

        def run() -> Status:
            within = len(self._shell.scope.consulted)
            status = self._shell.statement(chain.children[-1])
            return self._joined(node, status, "||", right, self.consulted(within))

        if condition:
            return run()
        return self._either(node, run, partial(self._shell.statement, right), causes)

    def _clauses(self, node: Node) -> list[tuple[list[Node], list[Node]]]:
        """Conditions with what stands under them; the last one of an ``else`` has no condition."""
        clauses: list[tuple[list[Node], list[Node]]] = []
        condition: list[Node] = []
        body: list[Node] = []
        target = condition
        for child in node.children:
            if child.type == "then":
                target = body
            elif child.type in ("elif_clause", "else_clause"):
                clauses.append((condition, body))
                if child.type == "else_clause":
                    return [*clauses, ([], list(child.named_children))]
                (condition, body), *_ = self._clauses(child)
                target = body
            elif child.is_named:
                target.append(child)
        return [*clauses, (condition, body)]

    def _branches(self, clauses: list[tuple[list[Node], list[Node]]]) -> Status:
        for position, (condition, body) in enumerate(clauses):
            before = len(self._shell.scope.consulted)
            status = True if not condition else self._shell.run_all(condition)
            if status:
                return self._shell.run_all(body)
            if status is None:
                rest = clauses[position + 1 :]
                return self._either(
                    condition[0],
                    partial(self._shell.run_all, body),
                    partial(self._branches, rest),
                    self.consulted(before),
                )
        return True

    def consulted(self, before: int) -> tuple[UndecidedPart, ...]:
        """What would tell a status that is not known: all that was consulted behind so many."""
        return together(self._shell.scope.consulted[before:])

    def _either(
        self,
        place: Node,
        first: Callable[[], Status],
        second: Callable[[], Status],
        causes: tuple[UndecidedPart, ...],
    ) -> Status:
        """Follow two branches of which one is taken."""
        outside, other = self._shell.streams.outside(), self._shell.scope.copy()
        one_left = self._branch(first, causes)
        one_output = self._shell.streams.printed_since(outside)
        before = self._shell.scope.copy()
        self._shell.scope.take(other)
        two_left = self._branch(second, causes)
        two_output = self._shell.streams.printed_since(outside)
        location = self._shell.source.location(place)
        for left, scope, goes_on in (
            (one_left, before, not two_left),
            (two_left, self._shell.scope, not one_left),
        ):
            if goes_on and _ends_loop(left):
                breaks = isinstance(left, LeaveLoop)
                self._shell.left_apart.append(LeftApart(scope.copy(), causes, breaks))
        if two_left and not one_left:
            self._shell.scope.take(before)
            self._shell.streams.print_either(one_output, one_output, location, causes)
        elif not one_left:
            self._shell.scope.merge(before, location, causes)
            self._shell.streams.print_either(one_output, two_output, location, causes)
        else:
            self._shell.streams.print_either(two_output, two_output, location, causes)
            if two_left:
                raise two_left
        return None

    def maybe(self, place: Node, run: Callable[[], Status], causes: tuple[UndecidedPart, ...]) -> Status:
        """Follow what may run or not."""
        return self._either(place, run, lambda: None, causes)

    def _branch(
        self, run: Callable[[], Status], causes: tuple[UndecidedPart, ...]
    ) -> "ExitShell | ReturnFromFunction | LeaveLoop | None":
        doubts = len(self._shell.doubts)
        self._shell.doubts += causes
        self._shell.uncertain += 1
        try:
            run()
        except (ExitShell, ReturnFromFunction, LeaveLoop) as left:
            return left
        finally:
            self._shell.uncertain -= 1
            del self._shell.doubts[doubts:]
        return None

    def _case(self, node: Node) -> Status:
        value = self._shell.expander().expand_to_string(node.child_by_field_name("value"))
        before = len(self._shell.scope.consulted)
        items = [child for child in node.children if child.type == "case_item"]
        for position, item in enumerate(items):
            matches = self._matches(value, item)
            if matches is None:
                rest = items[position:]
                for other in rest[1:]:  # what decides between these is asked for as well
                    self._matches(value, other)
                causes = together(value.undecided_parts, self.consulted(before))
                return self._any(node, [partial(self._item, item) for item in rest], causes)
            if matches:
                return self._item(item)
        return True

    def _any(
        self, node: Node, runs: Sequence[Callable[[], Status]], causes: tuple[UndecidedPart, ...]
    ) -> Status:
        if len(runs) == 1:
            return self.maybe(node, runs[0], causes)
        return self._either(node, runs[0], partial(self._any, node, runs[1:], causes), causes)

    def _matches(self, value: Text, item: Node) -> Status:
        conditions = self.conditions(item)
        matches: Status = False
        for child in _patterns(item):
            glob = self._shell.expander().expand_to_string(child)
            if child.type == "extglob_pattern":
                glob = text(self._shell.source.of(child))
            matches = True if glob.string == "*" else either(matches, conditions.matches(value, glob))
        return matches

    def _item(self, item: Node) -> Status:
        closing = next((place for place, child in enumerate(item.children) if child.type == ")"), 0)
        return self._shell.run_all(item.children[closing + 1 :])

    def conditions(self, node: Node) -> Conditions:
        """What judges the tests of a statement."""
        source = self._shell.source
        return Conditions(self._shell.scope, source, self._shell.expander(), source.location(node))


def _ends_loop(left: ExitShell | ReturnFromFunction | LeaveLoop | None) -> bool:
    """Whether a branch ends the loop around it, and the script goes on behind it or behind its function."""
    return isinstance(left, ReturnFromFunction) or (isinstance(left, LeaveLoop) and left.ends)


def _patterns(item: Node) -> list[Node]:
    """The patterns of one branch of ``case``."""
    patterns: list[Node] = []
    for child in item.children:
        if child.type == ")":
            return patterns
        if child.is_named:
            patterns.append(child)
    return patterns
