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
from tuner.inputs.shell.parameters import LONGEST, LONGEST_PATTERN, pattern
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.source import Node, Source
from tuner.inputs.shell.undecided_parts import UndecidedKind, UndecidedPart, together
from tuner.inputs.shell.values import Text

MOST_ROUNDS = 1_000  # of one loop


class ControlShell(Protocol):
    """What branches and loops need of the interpreter."""

    scope: Scope
    source: Source
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
            "c_style_for_statement": self._counted,
            "case_statement": self._case,
            "for_statement": self._for,
            "if_statement": lambda node: self._branches(self._clauses(node)),
            "list": self._list,
            "while_statement": self._while,
        }

    def _list(self, node: Node) -> Status:
        left, operator, right = node.children[0], node.children[1].type, node.children[-1]
        before = len(self._shell.scope.consulted)
        first = self._shell.statement(left)
        if first is None:
            second = self._maybe(partial(self._shell.statement, right), self._consulted(before))
        elif first is (operator == "&&"):
            second = self._shell.statement(right)
        else:
            return first
        return both(first, second) if operator == "&&" else either(first, second)

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
        other = self._shell.scope.copy()
        one_left = self._branch(first, causes)
        before = self._shell.scope.copy()
        self._shell.scope.take(other)
        two_left = self._branch(second, causes)
        if two_left and not one_left:
            self._shell.scope.take(before)
        elif not one_left:
            self._shell.scope.merge(before, self._shell.source.location(place), causes)
        elif two_left:
            raise two_left
        return None

    def _maybe(self, run: Callable[[], Status], causes: tuple[UndecidedPart, ...]) -> Status:
        """Follow what may run or not."""
        before = self._shell.scope.copy()
        left = self._branch(run, causes)
        if left:
            self._shell.scope.take(before)
        else:
            self._shell.scope.merge(before, Location(source=self._shell.source.file), causes)
        return None

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
        causes = value.because
        items = [child for child in node.children if child.type == "case_item"]
        for position, item in enumerate(items):
            matches = self._matches(value, item)
            if matches is None:
                rest = items[position:]
                runs = [partial(self._item, item) for item in rest]
                return self._any(node, runs, causes)
            if matches:
                return self._item(item)
        return True

    def _any(
        self, node: Node, runs: Sequence[Callable[[], Status]], causes: tuple[UndecidedPart, ...]
    ) -> Status:
        if len(runs) == 1:
            return self._maybe(runs[0], causes)
        return self._either(node, runs[0], partial(self._any, node, runs[1:], causes), causes)

    def _matches(self, value: Text, item: Node) -> Status:
        known = value.known
        patterns = [
            self._shell.expander().one(child).known
            if child.type != "extglob_pattern"
            else self._shell.source.of(child)
            for child in _patterns(item)
        ]
        if patterns == ["*"]:
            return True
        too_long = any(len(each) > LONGEST_PATTERN for each in patterns if each is not None)
        if known is None or None in patterns or too_long or len(known) > LONGEST:
            return None
        return any(pattern(each).match(known) is not None for each in patterns if each is not None)

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
            status = Conditions(self._shell.scope, self._shell.source, self._shell.expander()).arithmetic(
                condition
            )
            if status is None:
                return self._maybe(partial(self._round, body), self._consulted(before))
            if not status or not self._round(body):
                return True
            self._arithmetic(step)
        self._give_up(node)
        return True

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
                return self._maybe(partial(self._round, body), self._consulted(before))
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
