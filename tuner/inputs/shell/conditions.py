"""Tests of the shell: true, false, or nobody knows.

Source: GNU Bash manual, "Bash Conditional Expressions".
"""

from collections.abc import Callable, Sequence

from tuner.inputs.shell.arithmetic import parsed
from tuner.inputs.shell.expansion import Expander
from tuner.inputs.shell.machine import has, is_of_other
from tuner.inputs.shell.parameters import LONGEST, LONGEST_PATTERN, pattern, searched
from tuner.inputs.shell.scope import Assumed, Scope
from tuner.inputs.shell.source import Node, Source
from tuner.inputs.shell.values import Text, text

Status = bool | None
"""Whether a command succeeds; None where nobody knows."""

_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}

_OF_DEVICES = frozenset({"-e", "-c", "-d", "-f", "-x", "-r", "-s"})


class Conditions:
    """Judges the tests of one source in one scope."""

    def __init__(self, scope: Scope, source: Source, expander: Expander) -> None:
        self._scope, self._source, self._expander = scope, source, expander

    def test(self, node: Node) -> Status:
        """``[ ... ]``, ``[[ ... ]]`` and what stands inside; ``(( ... ))``."""
        kind = node.type
        if kind == "test_command":
            inner = node.named_children
            if node.children[0].type == "((":
                return self.arithmetic(inner)
            if node.children[0].type == "[":  # the grammar's precedence is that of "[[" there
                return self.words(self._operands(node.children[1:-1]))
            return self.test(inner[-1]) if inner else False
        if kind == "parenthesized_expression":
            return self.test(node.named_children[0]) if node.named_children else None
        if kind == "binary_expression":
            return self._binary(node)
        if kind == "unary_expression":
            operator, operand = self._source.of(node.children[0]), node.children[-1]
            return opposite(self.test(operand)) if operator == "!" else self._unary(operator, operand)
        value = self._consult(self._expander.one(node))
        return None if value.known is None else bool(value.known)

    def arithmetic(self, nodes: Sequence[Node]) -> Status:
        """``(( ... ))``: whether the last expression is not 0."""
        values = [self._expander.number(node) for node in nodes]
        return None if not values or values[-1] is None else bool(values[-1])

    def words(self, operands: Sequence[Text]) -> Status:
        """The command ``test`` with its arguments."""
        known = [operand.known for operand in operands]
        if not operands:
            return False
        if len(operands) > 3 or (len(operands) == 3 and known[1] in ("-o", "-a")):
            for operator, joins in (("-o", either), ("-a", both)):
                if operator in known:
                    at = known.index(operator)
                    return joins(self.words(operands[:at]), self.words(operands[at + 1 :]))
        if known[0] == "!" and len(operands) > 1:
            return opposite(self.words(operands[1:]))
        if len(operands) == 3 and known[1] is not None:
            return self._compared(operands[0], known[1], operands[2], pattern_=False)
        if len(operands) == 2 and known[0] in ("-n", "-z"):
            return _filled(self._consult(operands[1]), known[0])
        if len(operands) == 2 and known[0] in _OF_DEVICES:
            return self._of_file(known[0], operands[1])
        return _filled(self._consult(operands[0]), "-n") if len(operands) == 1 else None

    def _consult(self, operand: Text) -> Text:
        """An operand, after noting what is not run that would tell it."""
        self._scope.consulted += operand.because
        return operand

    def _operands(self, nodes: Sequence[Node]) -> list[Text]:
        operands: list[Text] = []
        for node in nodes:
            sign = node.children[0] if node.type == "unary_expression" else None
            if sign is not None and sign.end_byte == node.children[-1].start_byte:  # "-3", which is one word
                operands.append(text(self._source.of(sign), self._expander.one(node.children[-1])))
            elif node.type in ("binary_expression", "unary_expression", "parenthesized_expression"):
                operands += self._operands(node.children)
            elif node.is_named and node.type != "test_operator":
                operands += [field.text for field in self._expander.fields([node])]
            else:
                operands.append(text(self._source.of(node)))
        return operands

    def _binary(self, node: Node) -> Status:
        left, right = node.children[0], node.children[-1]
        operator = self._source.of(node.children[1])
        negated = left.type == "unary_expression" and left.children[0].type == "!"
        if operator in ("&&", "-a", "||", "-o"):
            first, second = self.test(left), self.test(right)
            return both(first, second) if operator in ("&&", "-a") else either(first, second)
        if negated:  # "! x == y", which the grammar takes for "(! x) == y"
            left = left.children[-1]
        pattern_ = right.type in ("extglob_pattern", "regex", "word")
        status = self._compared(
            self._expander.one(left), operator, self._expander.one(right), pattern_=pattern_
        )
        return opposite(status) if negated else status

    def _compared(self, left: Text, operator: str, right: Text, *, pattern_: bool) -> Status:
        for side in (left, right):
            self._consult(side)
        if operator in _COMPARISONS:
            numbers = [parsed(side.known) if side.known is not None else None for side in (left, right)]
            if numbers[0] is None or numbers[1] is None:
                return None
            return _COMPARISONS[operator](numbers[0], numbers[1])
        if operator not in ("=", "==", "!=", "=~", "<", ">"):
            return None
        if left.known is None or right.known is None:
            if is_of_other(self._scope.machine, left.known or right.known or "") and operator != "!=":
                return False
            return None
        if operator in ("<", ">"):
            return left.known < right.known if operator == "<" else left.known > right.known
        if operator == "=~":
            return searched(left.known, right.known)
        if pattern_ and (len(left.known) > LONGEST or len(right.known) > LONGEST_PATTERN):
            return None
        equal = bool(pattern(right.known).match(left.known)) if pattern_ else left.known == right.known
        return equal if operator != "!=" else not equal

    def _unary(self, operator: str, operand: Node) -> Status:
        if operator == "-v":
            return self._source.of(operand) in self._scope.variables
        if operator in ("-n", "-z"):
            return _filled(self._consult(self._expander.one(operand)), operator)
        return self._of_file(operator, self._expander.one(operand), operand)

    def _of_file(self, operator: str, name: Text, place: Node | None = None) -> Status:
        """A test of a file, which only the machine can tell."""
        there = has(self._scope.machine, str(name)) if operator in _OF_DEVICES else None
        if there is not None:
            where = self._source.location(place or self._source.root)
            self._scope.assumed.append(Assumed(text=f"{operator} {name}", location=where))
        return there


def _filled(value: Text, operator: str) -> Status:
    if value.known is None:
        if all(isinstance(piece, str) for piece in value.pieces) or value.size:
            return operator == "-n"
        return None
    return bool(value.known) is (operator == "-n")


def opposite(status: Status) -> Status:
    """``!``."""
    return None if status is None else not status


def both(first: Status, second: Status) -> Status:
    """``&&``."""
    if first is False or second is False:
        return False
    return True if first and second else None


def either(first: Status, second: Status) -> Status:
    """``||``."""
    if first or second:
        return True
    return False if first is False and second is False else None
