"""Branches and loops of a script, where what decides may not be known.

Of two branches of which nobody knows which is taken both are followed, each on a copy of the variables,
and what they leave different is unknown afterwards. A loop whose end is not known is followed for one round.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from tuner.errors import Location
from tuner.inputs.shell.conditions import Conditions, Status, both, either, opposite
from tuner.inputs.shell.exits import ExitShell, LeaveLoop, ReturnFromFunction
from tuner.inputs.shell.expansion import Expander
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.source import Node, Source
from tuner.inputs.shell.undecided_parts import UndecidedKind, UndecidedPart, together
from tuner.inputs.shell.values import Text, text

MOST_ROUNDS = 1_000  # of one loop


class Outlet(Protocol):
    """What branches print to."""

    def outside(self) -> int:
        """How much is printed before a branch."""

    def printed_since(self, outside: int) -> Text:
        """Take back what a branch printed."""

    def print_either(self, one: Text, two: Text, place: Location, causes: tuple[UndecidedPart, ...]) -> None:
        """Print what one of two branches does."""


class ControlShell(Protocol):
    """What branches and loops need of the interpreter."""

    scope: Scope
    source: Source
    streams: Outlet
    uncertain: int  # branches around the statement that nobody knows whether they are taken
    doubts: list[UndecidedPart]  # what would tell whether these are taken
    given_up: list[UndecidedPart]  # loops that were followed no further

    def statement(self, node: Node) -> Status:
        """Follow one statement."""

    def run_all(self, nodes: Iterable[Node]) -> Status:
        """Follow statements one after another; the status is the last one's."""

    def expander(self) -> Expander:
        """What expands words at this point."""


class Control:
    """Branches and loops of one interpreter."""

    def __init__(self, shell: ControlShell) -> None:
        self._shell = shell
        self.table: dict[str, Callable[[Node], Status]] = {
            "c_style_for_statement": partial(self._in_open_loop, self._counted),
            "case_statement": self._case,
            "for_statement": self._for,
            "if_statement": lambda node: self._branches(self._clauses(node)),
            "list": self._list,
            "while_statement": partial(self._in_open_loop, self._while),
        }

    def _list(self, node: Node) -> Status:
        left, operator, right = node.children[0], node.children[1].type, node.children[-1]
        before = len(self._shell.scope.consulted)
        if operator == "||" and left.type == "list" and left.children[1].type == "&&":
            return self._either_command(node, left, right)
        first = self._shell.statement(left)
        return self._joined(node, first, operator, right, self._consulted(before))

    def _joined(
        self, node: Node, first: Status, operator: str, right: Node, causes: tuple[UndecidedPart, ...]
    ) -> Status:
        """What stands behind ``&&`` or ``||``, after the status of what stands before it."""
        if first is None:
            second = self._maybe(node, partial(self._shell.statement, right), causes)
        elif first is (operator == "&&"):
            second = self._shell.statement(right)
        else:
            return first
        return both(first, second) if operator == "&&" else either(first, second)

    def _either_command(self, node: Node, chain: Node, right: Node) -> Status:
        """``condition && command || other``: one of the two, where the command succeeds."""
        before = len(self._shell.scope.consulted)
        condition = self._shell.statement(chain.children[0])
        causes = self._consulted(before)
        if condition is False:
            return self._shell.statement(right)

        def run() -> Status:
            within = len(self._shell.scope.consulted)
            status = self._shell.statement(chain.children[-1])
            return self._joined(node, status, "||", right, self._consulted(within))

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
                    self._consulted(before),
                )
        return True

    def _consulted(self, before: int) -> tuple[UndecidedPart, ...]:
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

    def _maybe(self, place: Node, run: Callable[[], Status], causes: tuple[UndecidedPart, ...]) -> Status:
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
        value = self._shell.expander().one(node.child_by_field_name("value"))
        before = len(self._shell.scope.consulted)
        items = [child for child in node.children if child.type == "case_item"]
        for position, item in enumerate(items):
            matches = self._matches(value, item)
            if matches is None:
                rest = items[position:]
                for other in rest[1:]:  # what decides between these is asked for as well
                    self._matches(value, other)
                causes = together(value.because, self._consulted(before))
                return self._any(node, [partial(self._item, item) for item in rest], causes)
            if matches:
                return self._item(item)
        return True

    def _any(
        self, node: Node, runs: Sequence[Callable[[], Status]], causes: tuple[UndecidedPart, ...]
    ) -> Status:
        if len(runs) == 1:
            return self._maybe(node, runs[0], causes)
        return self._either(node, runs[0], partial(self._any, node, runs[1:], causes), causes)

    def _matches(self, value: Text, item: Node) -> Status:
        conditions = self._conditions(item)
        matches: Status = False
        for child in _patterns(item):
            glob = self._shell.expander().one(child)
            if child.type == "extglob_pattern":
                glob = text(self._shell.source.of(child))
            matches = True if glob.known == "*" else either(matches, conditions.matches(value, glob))
        return matches

    def _item(self, item: Node) -> Status:
        closing = next((place for place, child in enumerate(item.children) if child.type == ")"), 0)
        return self._shell.run_all(item.children[closing + 1 :])

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
            status = self._conditions(node).arithmetic(condition)
            if status is None:
                return self._maybe(node, partial(self._round, body), self._consulted(before))
            if not status or not self._round(body):
                return True
            self._arithmetic(step)
        self._give_up(node)
        return True

    def _conditions(self, node: Node) -> Conditions:
        source = self._shell.source
        return Conditions(self._shell.scope, source, self._shell.expander(), source.location(node))

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
        for _ in range(MOST_ROUNDS):
            before = len(self._shell.scope.consulted)
            status = self._shell.run_all(conditions)
            status = opposite(status) if until else status
            if status is None:
                return self._maybe(node, partial(self._round, body), self._consulted(before))
            if not status or not self._round(body):
                return True
        self._give_up(node)
        return True

    def _give_up(self, loop: Node) -> None:
        """Note a loop that goes on, unless it runs beside the script."""
        if not in_background(loop):
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


def in_background(node: Node) -> bool:
    """Whether ``&`` stands behind a statement, or behind one that it is a part of."""
    while node is not None:
        following = node.next_sibling
        if following is not None and following.type == "&":
            return True
        node = node.parent
    return False


def _patterns(item: Node) -> list[Node]:
    """The patterns of one branch of ``case``."""
    patterns: list[Node] = []
    for child in item.children:
        if child.type == ")":
            return patterns
        if child.is_named:
            patterns.append(child)
    return patterns
