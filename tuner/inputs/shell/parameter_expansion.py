"""Variables and the operators of ``${...}``, with what is not known in them."""

from collections.abc import Callable, Sequence

from tuner.inputs.shell import parameters
from tuner.inputs.shell.arithmetic import Number
from tuner.inputs.shell.either import Array, Value, elements
from tuner.inputs.shell.scope import BLANKS, Scope
from tuner.inputs.shell.segments import Expanded, Segment, append, literal
from tuner.inputs.shell.source import Node, Source
from tuner.inputs.shell.undecided_parts import UndecidedPart, together
from tuner.inputs.shell.values import Text, Unknown, joined, text

_NAMES = ("variable_name", "special_variable_name", "subscript")
_CONDITIONAL = {":-", "-", ":=", "=", ":+", "+", ":?", "?"}
_REMOVALS = {"#", "##", "%", "%%"}
_REPLACEMENTS = {"/", "//", "/#", "/%"}
_CASES = {"^^", ",,", "^", ","}
_MOST_REPLACED = 1 << 24  # characters that a replacement may come to
_SEPARATE = ("@", "*")


class Braced:
    """Reads the variables of one scope as one source names them.

    Args:
        scope: the variables; ``${name:=x}`` assigns.
        source: the file that the nodes stand in.
        expand: the segments of an operand.
        number: the value of an offset or an index.
    """

    def __init__(
        self,
        scope: Scope,
        source: Source,
        expand: Callable[[Node], Expanded],
        number: Callable[[Node], Number],
    ) -> None:
        self._scope, self._source = scope, source
        self._expand, self._number = expand, number

    def simple(self, node: Node) -> Expanded:
        """``$name``; a digit is a whole name."""
        name = self._source.of(node.children[-1])
        if len(name) == 1 or not name[:1].isdecimal():
            return self.variable(node, name)
        expanded = self.variable(node, name[0])
        append(expanded, literal(name[1:]))
        return expanded

    def variable(self, node: Node, name: str) -> Expanded:
        """The value of a variable by its name; all arguments for ``@``."""
        if name in _SEPARATE:
            return _runs(self._scope.arguments)
        return [[Segment(self.value(node, name), splits=True)]]

    def value(self, node: Node, name: str) -> Text:
        """A variable as one string: of an array, its first element."""
        if name == "#":
            return self._count(node, self._scope.arguments)
        if name.isdecimal():
            position, arguments = int(name[:6]), (text(self._scope.script), *self._scope.arguments)
            if _several(arguments[: position + 1]):
                return self._unknown(node, "", together(*(value.undecided_parts for value in arguments)))
            return arguments[position] if position < len(arguments) else Text()
        value = self._scope.variables.get(name)
        if value is None and name == "BASH_SOURCE":
            return text(self._source.file)
        if value is None and name == "IFS":
            return text(BLANKS)
        if value is None:
            return Text() if name in self._scope.unset else self._unknown(node, name)
        return value if isinstance(value, Text) else _first(value)

    def subscript(self, node: Node) -> Text:
        """``name[index]`` as one string."""
        return joined(self._elements(node), " ")

    def expansion(self, node: Node) -> Expanded:
        """``${...}`` with its operator."""
        children = [child for child in node.children if child.type not in ("${", "}")]
        names = [position for position, child in enumerate(children) if child.type in _NAMES]
        if not names:
            return [[Segment(self._unknown(node, ""), splits=True)]]
        before, named, rest = children[: names[0]], children[names[0]], children[names[0] + 1 :]
        prefix = before[0].type if before else ""
        values = self._values(named)
        if prefix == "#":
            return _single_segment(self._length(node, named, values))
        if prefix == "!":
            return self._indirect(node, named, rest)
        if not rest:
            return values
        operator = self._source.of(rest[0]).strip()
        if operator in _CONDITIONAL:
            return self._conditional(named, values, operator, rest[1:])
        if operator == ":":
            return self._slice(node, named, values, rest[1:])
        return [
            [
                Segment(self._changed(node, segment.text, operator, rest[1:]), segment.splits)
                for segment in run
            ]
            for run in values
        ]

    def _values(self, named: Node) -> Expanded:
        if named.type == "subscript":
            if self._index(named) in _SEPARATE:
                return _runs(self._elements(named))
            return _single_segment(self.subscript(named))
        return self.variable(named, self._source.of(named))

    def _index(self, node: Node) -> str:
        return self._source.of(node).partition("[")[2].removesuffix("]").strip("\"'")

    def _elements(self, node: Node) -> tuple[Text, ...]:
        name, index = self._source.of(node).partition("[")[0], self._index(node)
        value = self._scope.variables.get(name)
        if value is None and name == "BASH_SOURCE":
            value = text(self._source.file)
        if value is None:
            return () if name in self._scope.unset else (self._unknown(node, name),)
        if isinstance(value, Text):
            array: Array = (value,)
        elif isinstance(value, tuple):
            array = value
        else:
            if index in _SEPARATE:
                return tuple(value.values())
            key = joined(self._texts(node.named_children[-1]), "").string
            return (self._unknown(node, name) if key is None else value.get(key, Text()),)
        if index in _SEPARATE:
            return elements(array)
        number = self._number(node.named_children[-1]) if len(node.named_children) > 1 else 0
        if number is None or _several(elements(array[: number + 1] if number >= 0 else array[number:])):
            return (self._unknown(node, name),)
        element = array[number] if -len(array) <= number < len(array) else None
        return (element or Text(),)

    def _texts(self, node: Node) -> list[Text]:
        return [segment.text for run in self._expand(node) for segment in run]

    def _length(self, node: Node, named: Node, values: Expanded) -> Text:
        if named.type == "subscript" and self._index(named) in _SEPARATE:
            return self._count(node, self._elements(named))
        whole = _joined(values)
        return (
            self._unknown(node, "", whole.undecided_parts)
            if whole.string is None
            else text(str(len(whole.string)))
        )

    def _count(self, node: Node, values: Sequence[Text]) -> Text:
        """How many values there are."""
        open_ended = _several(values) or (
            len(values) == 1 and node.type == "expansion" and values[0].string is None
        )
        because = together(*(value.undecided_parts for value in values))
        return self._unknown(node, "", because) if open_ended else text(str(len(values)))

    def _indirect(self, node: Node, named: Node, rest: Sequence[Node]) -> Expanded:
        """``${!name}``: the variable that another one names; ``${!array[@]}``: its keys."""
        if named.type == "subscript":
            value = self._scope.variables.get(self._source.of(named).partition("[")[0])
            if isinstance(value, tuple):
                return _runs([text(str(index)) for index, item in enumerate(value) if item is not None])
            if value is not None and not isinstance(value, Text):
                return _runs([text(key) for key in value])
            return _single_segment(self._unknown(node, ""))
        name = self.value(named, self._source.of(named)).string
        if name is None or (rest and self._source.of(rest[0]).strip() not in _CONDITIONAL):
            return _single_segment(self._unknown(node, ""))
        values = self.variable(node, name)
        if not rest:
            return values
        return self._conditional(named, values, self._source.of(rest[0]).strip(), rest[1:], name=name)

    def _conditional(
        self, named: Node, values: Expanded, operator: str, rest: Sequence[Node], *, name: str = ""
    ) -> Expanded:
        """``${name:-word}`` and its relatives; a variable that the script does not set counts as unset.

        That is how the script runs in an environment that does not have it.
        """
        name = name or self._source.of(named).partition("[")[0]
        absent = not self._is_set(name) or (operator[0] == ":" and _joined(values).string == "")
        if operator[-1] == "+":
            if absent:
                return [] if named.type == "subscript" else [[]]  # "${list[@]+...}" is no word then
            return self._operand(rest)
        if not absent:
            return values
        if operator[-1] == "?":
            return _single_segment(self._unknown(named, name))
        operand = self._operand(rest)
        if name not in self._scope.unset and name.isidentifier() and _joined(operand).string == "":
            self._scope.optional.append(name)
        if operator[-1] == "=":
            self._scope.variables[name] = _joined(operand)
        return operand

    def _is_set(self, name: str) -> bool:
        if name in _SEPARATE:
            return bool(self._scope.arguments)
        if name.isdecimal():
            return int(name[:6]) <= len(self._scope.arguments)
        return name in self._scope.variables

    def _operand(self, nodes: Sequence[Node]) -> Expanded:
        """The word behind an operator, with the blanks between its parts."""
        parts = [
            part for node in nodes for part in (node.children if node.type == "concatenation" else [node])
        ]
        expanded: Expanded = [[]]
        end = None
        for part in parts:
            if end is not None and part.start_byte > end:
                expanded[-1].append(Segment(text(self._source.between(end, part.start_byte)), splits=True))
            inside = self._expand(part)
            if part.type in ("word", "number"):  # outside quotes its blanks part fields, as those of a value
                inside = [[Segment(segment.text, splits=True) for segment in run] for run in inside]
            append(expanded, inside)
            end = part.end_byte
        return expanded

    def _slice(self, node: Node, named: Node, values: Expanded, rest: Sequence[Node]) -> Expanded:
        """``${name:offset:length}``: characters of one string, or elements of a list, be it of one."""
        numbers = [self._number(child) for child in rest if child.type != ":"]
        unknown = _single_segment(self._unknown(node, "", _joined(values).undecided_parts))
        if not numbers or None in numbers:
            return unknown
        offset, length = numbers[0] or 0, numbers[1] if len(numbers) > 1 else None
        arguments = self._source.of(named) in _SEPARATE
        if arguments or (named.type == "subscript" and self._index(named) in _SEPARATE):
            items = [segment.text for run in values for segment in run]
            several = _several(items) or (len(items) == 1 and items[0].string is None)
            if several and (offset != (1 if arguments else 0) or length is not None):
                return unknown  # how many there are decides
            if arguments:  # they count from 1, as "$0" stands before them
                values = [*_runs([text(self._scope.script)]), *values]
            return parameters.elements(values, offset, length)
        known = _joined(values).string
        return (
            unknown if known is None else _single_segment(text(parameters.substring(known, offset, length)))
        )

    def _changed(self, node: Node, value: Text, operator: str, rest: Sequence[Node]) -> Text:
        known = value.string
        slash = next((place for place, child in enumerate(rest) if child.type == "/"), len(rest))
        first, second = (_joined(self._operand(part)).string for part in (rest[:slash], rest[slash + 1 :]))
        if known is None or first is None or second is None or len(first) > parameters.LONGEST_PATTERN:
            return self._unknown(
                node, value.unknowns[0].name if value.unknowns else "", value.undecided_parts
            )
        if operator not in _CASES:
            self._scope.effort.match(min(parameters.LONGEST, len(known)))
        if operator in ("#", "##"):
            return text(parameters.without_prefix(known, first, longest=operator == "##"))
        if operator in ("%", "%%"):
            return text(parameters.without_suffix(known, first, longest=operator == "%%"))
        if operator in _REPLACEMENTS and len(known) * len(second) <= _MOST_REPLACED:
            return text(parameters.replaced(known, first, second, operator=operator))
        return text(parameters.in_case(known, operator)) if operator in _CASES else self._unknown(node, "")

    def _unknown(self, node: Node, name: str, because: tuple[UndecidedPart, ...] = ()) -> Text:
        place = self._source.location(node)
        return Text((Unknown(name=name, text=self._source.written(node), location=place, because=because),))


def _several(values: Sequence[Text]) -> bool:
    """Whether there may be more or fewer values than these."""
    return any(unknown.several for value in values for unknown in value.unknowns)


def _first(value: Value) -> Text:
    if isinstance(value, Text):
        return value
    if isinstance(value, tuple):
        return (value[0] if value else None) or Text()
    return value.get("0", Text())


def _runs(values: Sequence[Text]) -> Expanded:
    """One field for each value; inside quotes they stay apart."""
    return [[Segment(value, splits=True)] for value in values]


def _single_segment(value: Text) -> Expanded:
    return [[Segment(value, splits=True)]]


def _joined(expanded: Expanded) -> Text:
    return joined((text(*(segment.text for segment in run)) for run in expanded), " ")
