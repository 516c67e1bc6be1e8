"""What commands of a script read and print: pipelines, redirections, documents, ``$(...)``."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from tuner.errors import Location
from tuner.inputs.shell.conditions import Status, opposite
from tuner.inputs.shell.expansion import Expander
from tuner.inputs.shell.folders import absolute
from tuner.inputs.shell.machine import printed_by_machine
from tuner.inputs.shell.programs import command_output
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.source import Node, Source
from tuner.inputs.shell.undecided_parts import UndecidedKind, UndecidedPart, together
from tuner.inputs.shell.values import Text, Unknown, joined, text
from tuner.inputs.shell.written_files import WrittenFiles, is_behind, written_redirect

_YAML_FILE = re.compile(r"[\w.-]*\w\.ya?ml\b")
_LOADS_YAML = re.compile(r"\byaml\.(?:safe_|full_|unsafe_)?load\(")  # in a program behind ``python -c``
_ANY_YAML = "*.yaml"  # one whose name only a run would tell
_SOCKET = re.compile(r"/dev/(?:tcp|udp)/")  # a redirection that fails where nothing listens
_ESCAPED = re.compile(r"\\([$`\\\n])")  # in a document
_OUTWARDS = frozenset({">", ">>", ">|", "&>", "&>>", ">&"})


class StreamShell(Protocol):
    """What streams need of the interpreter."""

    scope: Scope
    source: Source
    written: WrittenFiles

    def statement(self, node: Node) -> Status:
        """Follow one statement."""

    def run_all(self, nodes: Iterable[Node]) -> Status:
        """Follow statements one after another; the status is the last one's."""

    def apart(self, run: Callable[[], Status]) -> Status:
        """Follow what runs in a process of its own."""

    def deeper(self, run: Callable[[], Status], place: Location) -> Status:
        """Follow something that may lead to itself."""

    def expander(self) -> Expander:
        """What expands words at this point."""

    def go_on(self, joined_list: Node, first: Status, before: int) -> Status:
        """Follow what stands behind ``&&`` or ``||``, after the status of what stands before it."""


class Streams:
    """Standard input and output of the commands of one interpreter."""

    def __init__(self, shell: StreamShell) -> None:
        self._shell = shell
        self.given: Text | None = None  # what the next command reads, None where nobody says
        self._output: list[Text] | None = None  # what is printed, None where nobody reads it
        self._substitutions: list[UndecidedPart] = []  # that are being followed, outermost first
        self.table: dict[str, Callable[[Node], Status]] = {
            "pipeline": self._pipeline,
            "redirected_statement": self._redirected,
        }

    def print(self, output: Text) -> None:
        """Take what a builtin prints."""
        if self._output is not None:
            self._output.append(text(output, "\n"))

    def outside(self) -> int:
        """How much is printed before a branch."""
        return len(self._output or ())

    def printed_since(self, outside: int) -> Text:
        """Take back what a branch printed."""
        printed_inside = joined((self._output or [])[outside:], "")
        del (self._output or [])[outside:]
        return printed_inside

    def print_either(self, one: Text, two: Text, place: Location, causes: tuple[UndecidedPart, ...]) -> None:
        """Print what one of two branches does."""
        if self._output is None or not (one.pieces or two.pieces):
            return
        if one != two:
            substitution = self._substitutions[-1].text if self._substitutions else ""
            because = together(causes, one.undecided_parts, two.undecided_parts)
            one = Text((Unknown(name="", text=substitution, location=place, because=because),))
        self._output.append(one)

    def printed_by(self, words: Sequence[Text], place: Location) -> bool:
        """Take what a program prints; False where nobody reads it."""
        if self._output is None:
            return False
        output = command_output(str(words[0]).rpartition("/")[2], words[1:], self.given)
        if output is None:
            output = self._path(words, place)
        if output is None and str(words[0]) == "scontrol":
            from tuner.inputs.shell.allocated_nodes import printed_hostnames  # of jobs under Slurm

            output = printed_hostnames(words, self._shell.scope)
        if output is None:
            output = printed_by_machine(words, self._shell.scope.machine, place, self.given)
        if output is None:
            output = self._not_known(words, place)
        self._output.append(output)
        return True

    def _path(self, words: Sequence[Text], place: Location) -> Text | None:
        """What ``realpath name`` and ``readlink -f name`` print; None for other words."""
        named = [word.string for word in words[1:] if not str(word).startswith("-")]
        if str(words[0]) not in ("realpath", "readlink") or len(named) != 1 or named[0] is None:
            return None
        path = absolute(named[0], self._shell.scope, place)
        return None if path is None else text(path, "\n")

    def _not_known(self, words: Sequence[Text], place: Location) -> Text:
        """What a program prints that is not run: the whole substitution stands for it."""
        line = f"$({' '.join(map(str, words))})"
        cause = UndecidedPart(kind=UndecidedKind.OUTPUT, text=line, location=place)
        if self._substitutions:
            cause = self._substitutions[-1]
        cause = replace(cause, file=_yaml_named(words))
        return Text((Unknown(name="", text=cause.text, location=cause.location, because=(cause,)),))

    def substituted(self, node: Node) -> Text:
        """What ``$(...)`` gives: what the commands print, without the last ends of lines."""
        before, given = self._output, self.given
        printed_inside: list[Text] = []
        self._output, self.given = printed_inside, None
        place = self._shell.source.location(node)
        command = " ".join(self._shell.source.written(node).split())
        self._substitutions.append(UndecidedPart(kind=UndecidedKind.OUTPUT, text=command, location=place))
        try:
            self._shell.deeper(partial(self._shell.apart, partial(self._shell.run_all, node.children)), place)
        finally:
            self._output, self.given = before, given
            self._substitutions.pop()
        output = joined(printed_inside, "")
        if output.pieces and isinstance(output.pieces[-1], str):
            return text(*output.pieces[:-1], output.pieces[-1].rstrip("\n"))
        return output

    def _pipeline(self, node: Node) -> Status:
        parts, lists = _regrouped(node)
        before = len(self._shell.scope.consulted)
        status = opposite(self._piped(parts)) if _is_negated(parts) else self._piped(parts)
        for joined_list in lists:
            status = self._shell.go_on(joined_list, status, before)
        return status

    def _piped(self, parts: Sequence[Node]) -> Status:
        """Follow commands, each of which reads what the one before it prints."""
        status: Status = True
        given, outer = self.given, self._output
        for position, part in enumerate(parts):
            last = position == len(parts) - 1
            between: list[Text] | None = None if outer is None else []
            self._output, self.given = outer if last else between, given
            try:
                status = self._shell.apart(partial(self._shell.statement, part))
            finally:
                self._output, self.given = outer, None
            given = None if between is None or last else joined(between, "")
        return status

    def _redirected(self, node: Node) -> Status:
        before, output = self.given, self._output
        behind: list[Node] = []
        into = written_redirect(node, self._shell.source)
        if into is not None or (output is not None and any(map(self._leads_away, node.children))):
            self._output = []
        for child in node.children:
            if child.type == "heredoc_redirect":
                bodies = [inner for inner in child.named_children if inner.type == "heredoc_body"]
                self.given = self._document(bodies[0]) if bodies else None
                # "cat << EOF | program": the grammar puts the rest of the line into the redirection.
                behind = [
                    part for part in child.named_children if part.type in ("pipeline", "list", "command")
                ]
            elif child.type == "herestring_redirect":
                self.given = text(self._shell.expander().expand_to_string(child.named_children[-1]), "\n")
            elif child.type == "file_redirect" and any(part.type == "<" for part in child.children):
                self.given = self._of_process(child.children[-1])
        try:
            status = self._shell.run_all([node.children[0], *behind])
            if into is not None and not behind:
                self._write(into)
        finally:
            self.given, self._output = before, output
        port = next((child for child in node.children if _SOCKET.search(self._shell.source.of(child))), None)
        if not status or port is None or port.type != "file_redirect":
            return status
        line = " ".join(self._shell.source.written(node).split())
        place = self._shell.source.location(node)
        return self._shell.scope.decide(UndecidedPart(kind=UndecidedKind.STATUS, text=line, location=place))

    def _of_process(self, node: Node) -> Text | None:
        """What the commands of ``< <(...)`` print; None for a file, and where that is not wholly known."""
        if node.type != "process_substitution":
            return None
        output = self.substituted(node)
        return None if output.string is None else text(output, "\n")

    def _write(self, redirect: Node) -> None:
        """Note what a redirected command has printed as the text of a file."""
        name = self._shell.expander().expand_to_string(redirect.children[-1])
        place, output = self._shell.source.location(redirect), joined(self._output or (), "")
        self._shell.written.write(name, output, place, behind=is_behind(redirect))

    def _leads_away(self, node: Node) -> bool:
        """Whether a redirection takes the standard output elsewhere: ``> file``, ``>&2``."""
        if node.type != "file_redirect":
            return False
        kinds = [child.type for child in node.children]
        if "file_descriptor" in kinds and self._shell.source.of(node.children[0]) != "1":
            return False
        operator = next((kind for kind in kinds if kind in _OUTWARDS), "")
        return bool(operator) and self._shell.source.of(node.children[-1]) != "1"

    def _document(self, node: Node) -> Text:
        """The text between ``<< EOF`` and ``EOF``."""
        source = self._shell.source
        pieces: list[Text | str] = []
        at = node.start_byte
        quoted = any(
            mark in source.of(child)
            for child in node.parent.children
            if child.type == "heredoc_start"
            for mark in "'\"\\"
        )
        for child in node.named_children:
            if child.type == "heredoc_content":
                continue
            plain = source.between(at, child.start_byte)
            pieces += [plain if quoted else _unescaped(plain), self._shell.expander().expand_to_string(child)]
            at = child.end_byte
        rest = source.between(at, node.end_byte)
        return text(*pieces, rest if quoted else _unescaped(rest))


def _unescaped(document: str) -> str:
    """The text of a document whose end is not quoted: what the shell takes off its backslashes."""
    return _ESCAPED.sub(lambda match: match[1].replace("\n", ""), document)


def _yaml_named(words: Sequence[Text]) -> str:
    """The name of the YAML file among the words of a command, without its folder; empty for none.

    A program that loads one of a name that is not known reads one as well.
    """
    names = [str(word).rpartition("/")[2] for word in words]
    typed = (match[0] for name in names for match in _YAML_FILE.finditer(name))
    loads = any(_LOADS_YAML.search(str(word)) for word in words)
    return next(typed, _ANY_YAML if loads else "")


def _regrouped(node: Node) -> tuple[list[Node], list[Node]]:
    """The commands of a pipeline, and the lists behind it whose right sides are no part of it.

    Of ``a | b | c && d`` the grammar makes ``a | (b | c && d)``, where the shell has ``(a | b | c) && d``.
    """
    *parts, last = (child for child in node.children if child.is_named)
    lists: list[Node] = []
    while last.type == "list":
        lists.insert(0, last)
        last = last.children[0]
    if last.type != "pipeline" or not lists:
        return [*parts, last], lists
    inner, further = _regrouped(last)
    return [*parts, *inner], [*further, *lists]


def _is_negated(parts: Sequence[Node]) -> bool:
    """Whether a ``!`` stands in front of a pipeline: the grammar gives it to the first command alone."""
    first = parts[0].children[0] if parts[0].type == "redirected_statement" else parts[0]
    return bool(first.type == "negated_command")
