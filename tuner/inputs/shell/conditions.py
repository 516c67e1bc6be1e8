"""Tests of the shell: true, false, or nobody knows.

Source: GNU Bash manual, "Bash Conditional Expressions".
"""

import re
from collections.abc import Callable, Sequence

from tuner.errors import Location
from tuner.inputs.shell.arithmetic import parsed
from tuner.inputs.shell.expansion import Expander
from tuner.inputs.shell.machine import has, is_of_other
from tuner.inputs.shell.parameters import LONGEST, LONGEST_PATTERN, pattern, searched
from tuner.inputs.shell.scope import Assumed, Scope
from tuner.inputs.shell.source import Node, Source
from tuner.inputs.shell.undecided_parts import UndecidedKind, UndecidedPart
from tuner.inputs.shell.values import Text, Unknown, text

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

_OF_FILES = frozenset({"-e", "-c", "-d", "-f", "-x", "-r", "-s", "-w", "-L", "-h", "-S", "-p", "-b"})
_EQUALITIES = frozenset({"==", "!=", "<=", ">="})
_GLOB = re.compile(r"[*?\[]|[@!+]\(")


class Conditions:
    """Judges the tests of one source in one scope.

    Args:
        scope: the variables, and which tests that nobody knows are taken to hold or not.
        source: the file that the tests stand in.
        expander: of their operands.
        place: where they stand.
    """

    def __init__(self, scope: Scope, source: Source, expander: Expander, place: Location) -> None:
        self._scope, self._source, self._expander, self._place = scope, source, expander, place

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
            if operator == "!":
                return opposite(self.test(operand))
            if operator == "-v":
                return self._source.of(operand) in self._scope.variables
            return self._unary(operator, self._expander.expand_to_string(operand))
        return self._filled(self._expander.expand_to_string(node))

    def arithmetic(self, nodes: Sequence[Node]) -> Status:
        """``(( ... ))``: whether the last expression is not 0."""
        values = [self._expander.number(node) for node in nodes]
        if not values:
            return None
        if values[-1] is not None:
            return bool(values[-1])
        expression = self._source.of(nodes[-1])
        if_empty = len(nodes) == 1 and _has_no_effect(nodes[0]) and self._expander.number_if_empty(nodes[0])
        return self._decide(f"(( {expression} ))", self._settling(nodes[-1]), if_empty=bool(if_empty))

    def _settling(self, expression: Node) -> str:
        """The variable that settles arithmetic; none where the script itself sets it to what is not known."""
        name = self._expander.blame(expression)
        value = self._scope.variables.get(name)
        return next((unknown.name for unknown in value.unknowns), "") if isinstance(value, Text) else name

    def words(self, operands: Sequence[Text]) -> Status:
        """The command ``test`` with its arguments."""
        known = [operand.string for operand in operands]
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
        if len(operands) == 2 and known[0] is not None:
            return self._unary(known[0], operands[1])
        return self._filled(operands[0]) if len(operands) == 1 else None

    def _consult(self, operand: Text) -> Text:
        """An operand, after noting what is not run that would tell it."""
        self._scope.consulted += operand.undecided_parts
        return operand

    def _operands(self, nodes: Sequence[Node]) -> list[Text]:
        operands: list[Text] = []
        for node in nodes:
            sign = node.children[0] if node.type == "unary_expression" else None
            if sign is not None and sign.end_byte == node.children[-1].start_byte:  # "-3", which is one word
                operands.append(
                    text(self._source.of(sign), self._expander.expand_to_string(node.children[-1]))
                )
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
            self._expander.expand_to_string(left),
            operator,
            self._expander.expand_to_string(right),
            pattern_=pattern_,
        )
        return opposite(status) if negated else status

    def _compared(self, left: Text, operator: str, right: Text, *, pattern_: bool) -> Status:
        if operator == "!=":
            return opposite(self._compared(left, "=", right, pattern_=pattern_))
        if operator not in _COMPARISONS and operator not in ("=", "==", "=~", "<", ">"):
            return None
        for side in (left, right):
            self._consult(side)
        if left.string is not None and right.string is not None:
            return _string_comparison(left.string, operator, right.string, pattern_=pattern_)
        if is_of_other(self._scope.machine, left.string or right.string or "") and operator in (
            "=",
            "==",
            "=~",
        ):
            return False
        operator = "=" if operator == "==" else operator
        empty = _string_comparison(
            _without_unknowns(left), operator, _without_unknowns(right), pattern_=pattern_
        )
        name = next((unknown.name for unknown in (*left.unknowns, *right.unknowns)), "")
        equal = None
        if operator == "=" and right.string is not None and not (pattern_ and _GLOB.search(right.string)):
            equal = _alone(left, right.string)
        return self._decide(
            f"{_shown(left)} {operator} {_shown(right)}", name, if_empty=bool(empty), equal=equal
        )

    def matches(self, value: Text, glob: Text) -> Status:
        """Whether a branch of ``case`` is taken by one of its patterns."""
        return self._compared(value, "=", glob, pattern_=True)

    def _decide(
        self, expression: str, name: str, *, if_empty: bool, equal: tuple[Unknown, str] | None = None
    ) -> Status:
        """A test that nobody knows, which may be taken to hold or not."""
        test = UndecidedPart(
            kind=UndecidedKind.TEST, text=expression, location=self._place, name=name, if_empty=if_empty
        )
        return self._scope.decide(test, equal)

    def _unary(self, operator: str, operand: Text) -> Status:
        if operator == "-n":
            return self._filled(operand)
        if operator == "-z":
            return opposite(self._filled(operand))
        there = has(self._scope.machine, str(operand)) if operator in _OF_FILES else None
        if there is not None:
            self._scope.assumed.append(Assumed(text=f"{operator} {operand}", location=self._place))
            return there
        if operator not in _OF_FILES:
            return None
        self._consult(operand)
        return self._decide(f"{operator} {operand}", "", if_empty=False)

    def _filled(self, value: Text) -> Status:
        """Whether a value is not empty."""
        self._consult(value)
        if value.string is not None:
            return bool(value.string)
        if value.size:
            return True
        equal = _alone(value, "")
        filled = self._decide(f"-n {_shown(value)}", value.unknowns[0].name, if_empty=False)
        if filled is False and equal is not None:
            self._scope.variables[equal[0].name] = Text()
        return filled


def _string_comparison(left: str, operator: str, right: str, *, pattern_: bool) -> Status:
    """A comparison of two strings."""
    if operator in _COMPARISONS:
        numbers = parsed(left), parsed(right)
        if numbers[0] is None or numbers[1] is None:
            return None
        return _COMPARISONS[operator](numbers[0], numbers[1])
    if operator in ("<", ">"):
        return left < right if operator == "<" else left > right
    if operator == "=~":
        return searched(left, right)
    if pattern_ and (len(left) > LONGEST or len(right) > LONGEST_PATTERN):
        return None
    return bool(pattern(right).match(left)) if pattern_ else left == right


def _without_unknowns(value: Text) -> str:
    return "".join(piece for piece in value.pieces if isinstance(piece, str))


def _alone(value: Text, text_: str) -> tuple[Unknown, str] | None:
    """The variable that a value is, with the text that it would be."""
    piece = value.pieces[0] if len(value.pieces) == 1 else None
    return (piece, text_) if isinstance(piece, Unknown) and piece.name and not piece.several else None


def _shown(value: Text) -> str:
    """An operand as a reader needs it: an empty one and one with blanks in quotes."""
    operand = str(value)
    return operand if value.string is None or re.fullmatch(r"\S+", operand) else f'"{operand}"'


def _has_no_effect(node: Node) -> bool:
    """Whether arithmetic assigns nothing."""
    nodes = [node]
    for inner in nodes:
        nodes += inner.children
        if inner.type in ("++", "--") or (inner.type.endswith("=") and inner.type not in _EQUALITIES):
            return False
    return True


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
