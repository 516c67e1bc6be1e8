"""Expands words of the shell: quotes, variables, arithmetic, command substitutions, fields.

Source: GNU Bash manual, "Shell Expansions". Names of files are not expanded: a pattern stays as it is
written, as it does in the shell where no file matches.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from tuner.errors import Location
from tuner.inputs.shell.arithmetic import Arithmetic, Number, parsed
from tuner.inputs.shell.braces import brace_words
from tuner.inputs.shell.parameter_expansion import Braced
from tuner.inputs.shell.scope import BLANKS, Scope
from tuner.inputs.shell.segments import Expanded, Segment, append, literal, quoted, split
from tuner.inputs.shell.source import Node, Source, parse_to_follow
from tuner.inputs.shell.undecided_parts import UndecidedPart, together
from tuner.inputs.shell.values import Field, Text, Unknown, joined, text

_QUOTED = {"string", "translated_string"}
_OPENING = re.compile(rb"[$`]")
_ESCAPE = re.compile(r"\\(?:\n|(.))", re.DOTALL)
_ESCAPE_IN_STRING = re.compile(r"\\(?:\n|([$`\"\\]))")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "a": "\a", "e": "\033"}
_MOST_FIELDS = 10_000
_OPERANDS = frozenset(
    {
        "arithmetic_expansion",
        "command_substitution",
        "expansion",
        "simple_expansion",
        "string",
        "subscript",
    }
)
_BARE = re.compile(r"[A-Za-z0-9_./:=,@%+-]+", re.ASCII)  # a word that stands for itself
_ALL_AS_ONE = re.compile(
    r"\$\*|\$\{(?:\*|[A-Za-z_0-9]+\[\*\])[^+\-]*\}"
)  # with blanks between, inside quotes


class Expander:
    """Expands the nodes of one source in one scope.

    Args:
        scope: the variables, which ``${name:=x}`` and ``$((i++))`` change.
        source: the file that the nodes stand in.
        substitute: what a command prints that stands in ``$(...)``.
    """

    def __init__(self, scope: Scope, source: Source, substitute: Callable[[Node], Text]) -> None:
        self._scope, self._source, self._substitute = scope, source, substitute
        self._empty_for_unknown = False  # in arithmetic

    # Both know what they are of: kept from the start they would hold it until garbage is looked for.
    @property
    def _braced(self) -> Braced:
        return Braced(self._scope, self._source, self.expand, self.number)

    @cached_property
    def _arithmetic(self) -> Arithmetic:
        return Arithmetic(self._operand, self._assign_number, self._source.of)

    def fields(self, nodes: Sequence[Node]) -> list[Field]:
        """The words of a command after expansion; nodes without a blank between them are one word."""
        words: list[list[Node]] = []
        for node in nodes:
            if node.type == "comment":
                continue
            if words and words[-1][-1].end_byte == node.start_byte:
                words[-1].append(node)
            else:
                words.append([node])
        fields: list[Field] = []
        separators = self._scope.separators
        separators = BLANKS if separators is None else separators
        for word in words:
            location = self._source.location(word[0])
            bare = self._source.of(word[0]) if len(word) == 1 else ""
            if _BARE.fullmatch(bare):
                self._scope.effort.copy_text(len(bare))
                fields.append(Field(text=Text((bare,)), location=location))
                continue
            for alternative in self._alternatives(word):
                self._scope.effort.copy_values(sum(map(len, alternative)))
                fields += [Field(text=item, location=location) for item in split(alternative, separators)]
        self._scope.effort.copy_values(len(fields))
        return fields[:_MOST_FIELDS]

    def expand_to_string(self, node: Node) -> Text:
        """A word as one string: the right side of an assignment, an operand of a test."""
        runs = self.expand(node)
        return joined((text(*(segment.text for segment in run)) for run in runs), " ")

    def number(self, node: Node) -> Number:
        """The value of an arithmetic expression."""
        if node.type in ("word", "concatenation", "string") and not _NAME.fullmatch(self._source.of(node)):
            words = self._source.of(node).strip('"')  # "i+1" in "${a[i+1]}", where the grammar sees a word
            return self.computed(words, self._source.location(node))
        return self._arithmetic.value(node)

    def number_if_empty(self, node: Node) -> Number:
        """The value of an arithmetic expression where all that is not known in it is empty."""
        self._empty_for_unknown = True
        try:
            return self.number(node)
        finally:
            self._empty_for_unknown = False

    def blame(self, node: Node) -> str:
        """The variable that makes an expression unknown; empty where it is none."""
        return self._blame(node)

    def computed(self, expression: str, place: Location) -> Number:
        """The value of arithmetic that the script has as a text."""
        known = joined(
            (segment.text for run in self.expand_text(f"$(({expression}))", place) for segment in run), ""
        ).string
        return None if known is None or not re.fullmatch(r"-?\d+", known) else int(known)

    def expand(self, node: Node) -> Expanded:
        """The segments of a word or of a part of one."""
        expanded = self._expanded(node)
        self._scope.effort.copy_text(sum(segment.text.weight for run in expanded for segment in run))
        return expanded

    def _expanded(self, node: Node) -> Expanded:
        kind = node.type
        if kind in _QUOTED:
            return self._string(node)
        if kind == "raw_string":
            return literal(self._source.of(node)[1:-1])
        if kind == "ansi_c_string":
            body = self._source.of(node)[2:-1]
            return literal(
                re.sub(r"\\(.)", lambda match: _ANSI.get(match[1], match[0]), body, flags=re.DOTALL)
            )
        if kind in ("concatenation", "command_name", "array"):
            return self._sequence(node.children)
        if kind == "simple_expansion":
            return self._braced.simple(node)
        if kind == "expansion":
            return self._braced.expansion(node)
        if kind == "command_substitution":
            words = self._source.of(node)
            if words.startswith("$((") and words.endswith("))"):  # what the grammar makes of it in a document
                return self.expand_text(words, self._source.location(node))
            return [[Segment(self._substitute(node), splits=True)]]
        if kind == "arithmetic_expansion":
            return [[Segment(self._computed(node), splits=True)]]
        if kind == "process_substitution":
            return [[Segment(self.unknown(node), splits=False)]]
        return self._word(node)

    def unknown(self, node: Node, name: str = "", because: Iterable[UndecidedPart] = ()) -> Text:
        """What nobody can know about a node."""
        place, causes = self._source.location(node), together(because)
        return Text((Unknown(name=name, text=self._source.written(node), location=place, because=causes),))

    def _sequence(self, nodes: Sequence[Node]) -> Expanded:
        expanded: Expanded = [[]]
        for position, node in enumerate(nodes):
            if node.type == "$" and position + 1 < len(nodes):
                continue  # a quotation mark, or a name that the grammar took for text, follows
            previous = nodes[position - 1] if position else None
            if previous is not None and previous.type == "$" and node.type == "word":
                append(expanded, self._missed(node))
            else:
                append(expanded, self.expand(node))
        return expanded

    def _missed(self, node: Node) -> Expanded:
        """A variable and the text behind it, where the grammar sees a lone dollar sign and a word."""
        words = self._source.of(node)
        name = _NAME.match(words)
        if name is None:
            return literal(f"${words}")
        expanded = self._braced.variable(node, name[0])
        append(expanded, literal(_unescaped(words[name.end() :])))
        return expanded

    def _word(self, node: Node) -> Expanded:
        words = self._source.of(node)
        if words == "~" or words.startswith("~/"):
            home = self._scope.variables.get("HOME")
            start = home if isinstance(home, Text) else self.unknown(node, "HOME")
            return [[Segment(text(start, words[1:]), splits=False)]]
        return literal(_unescaped(words))

    def _string(self, node: Node) -> Expanded:
        """A quoted string; the grammar leaves out blanks between two expansions, which the bytes have."""
        start = node.start_byte + self._source.of(node).index('"') + 1
        expanded: Expanded = [[Segment(Text(), splits=False)]]
        inner = [child for child in node.named_children if child.type != "string_content"]
        as_one = [child for child in inner if _ALL_AS_ONE.match(self._source.of(child).lstrip())]
        if (
            len(inner) == 1
            and not as_one
            and self._source.between(start, node.end_byte - 1) == self._source.of(inner[0])
        ):
            runs = quoted(self.expand(inner[0]))
            if "@" in self._source.of(inner[0]):  # no word at all where there is no element
                return runs
            return [run or expanded[0] for run in runs]  # "${name:-}" is an empty word
        separators = self._scope.separators
        between = " " if separators is None else separators[:1]
        for child in inner:
            opening = _OPENING.search(self._source.content, child.start_byte, child.end_byte)
            begin = child.start_byte if opening is None else opening.start()
            append(expanded, literal(self._content(start, begin)))
            inside = self.expand(child)
            if _ALL_AS_ONE.match(self._source.of(child).lstrip()):
                inside = [
                    [
                        Segment(
                            joined((text(*(part.text for part in run)) for run in inside), between),
                            splits=False,
                        )
                    ]
                ]
            append(expanded, quoted(inside) or [[]])
            start = child.end_byte
        append(expanded, literal(self._content(start, node.end_byte - 1)))
        return expanded

    def _content(self, start: int, end: int) -> str:
        return _ESCAPE_IN_STRING.sub(lambda match: match[1] or "", self._source.between(start, end))

    def _computed(self, node: Node) -> Text:
        inner, before = node.named_children, len(self._scope.consulted)
        value = 0 if not inner else self.number(inner[-1])
        if value is not None:
            return text(str(value))
        return self.unknown(node, self._blame(node), self._scope.consulted[before:])

    def _blame(self, node: Node) -> str:
        """The variable that makes an expression unknown, where it is one."""
        names = (child for child in descendants(node) if child.type == "variable_name")
        return next((self._source.of(child) for child in names if self._operand(child) is None), "")

    def _operand(self, node: Node) -> Number:
        if node.type in ("variable_name", "word"):
            name = self._source.of(node)
            value = text(name) if name[:1].isdigit() else self._braced.value(node, name)
        elif node.type in _OPERANDS:
            value = self._braced.subscript(node) if node.type == "subscript" else self.expand_to_string(node)
        else:
            return None
        if value.string is None and self._empty_for_unknown:
            return 0
        if value.string is None:
            self._scope.consulted += value.undecided_parts
            return None
        return parsed(value.string)

    def _assign_number(self, node: Node, value: Number) -> None:
        name = self._source.of(node)
        if _NAME.fullmatch(name):
            self._scope.variables[name] = self.unknown(node, name) if value is None else text(str(value))

    def _alternatives(self, nodes: Sequence[Node]) -> Iterator[Expanded]:
        """A word, or each that a brace expression makes of it."""
        source = self._source_text(nodes)
        words = brace_words(source) if "{" in source else []
        if len(words) == 1 and words[0] == source:
            words = []
        if not words:
            yield self._sequence(nodes)
        for word in words:
            if _BARE.fullmatch(word):
                yield literal(word)
            elif word:
                yield self.expand_text(word, self._source.location(nodes[0]))

    def expand_text(self, word: str, place: Location) -> Expanded:
        """The segments of a word that is made while the script is followed."""
        self._scope.effort.parse(len(word))
        source = parse_to_follow(
            self._source.file, f"a={word}".encode("utf-8", "surrogateescape"), first=place
        )
        assignment = source.root.children[0] if source.root.children else None
        if assignment is None or assignment.type != "variable_assignment":
            return literal(word)
        return Expander(self._scope, source, self._substitute).expand(assignment.children[-1])

    def _source_text(self, nodes: Sequence[Node]) -> str:
        return self._source.between(nodes[0].start_byte, nodes[-1].end_byte)


def descendants(node: Node) -> list[Node]:
    """All nodes below one."""
    below = list(node.children)
    for child in below:
        below += child.children
    return below


def _unescaped(words: str) -> str:
    return _ESCAPE.sub(lambda match: match[1] or "", words)
