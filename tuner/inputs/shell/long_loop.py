"""The loop that makes following a script too long, and the variable that bounds it."""

import re
from collections.abc import Iterator

from msgspec import Struct

from tuner.errors import Location, cut
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.source import Node, Source
from tuner.inputs.shell.values import Text
from tuner.language import _

_FEW = 1  # rounds that show what the loop starts
_NUMBER = re.compile(r"\d{1,9}")


class LongLoop(Struct, frozen=True, kw_only=True):
    """A loop of a script that was not followed to its end."""

    head: str  # as the script has it
    location: Location
    bound: str = ""  # a variable of the head that a user can give; empty where there is none

    @property
    def hint(self) -> str:
        """What to do to have the script followed."""
        line = self.location.line
        if not self.bound:
            return _("the loop {head} of line {line} takes them").format(head=self.head, line=line)
        return _(
            "the loop {head} of line {line} takes them: give {name}={few} behind the script for a shorter one"
        ).format(head=self.head, line=line, name=self.bound, few=_FEW)


def long_loop(loop: Node, source: Source, scope: Scope) -> LongLoop:
    """A loop as it is named to a reader.

    Args:
        loop: its statement.
        source: the file that it stands in.
        scope: the variables as they are when it is given up.
    """
    body = loop.child_by_field_name("body")
    end = loop.end_byte if body is None else body.start_byte
    head = " ".join(source.between(loop.start_byte, end).split()).rstrip("; ")
    bounds = [name for name in _names(loop, body, source) if _is_given(name, source, scope)]
    return LongLoop(head=cut(head), location=source.location(loop), bound=bounds[-1] if bounds else "")


def _names(node: Node, body: Node | None, source: Source) -> Iterator[str]:
    """The variables that the head of a loop reads."""
    for child in node.named_children:
        if child == body:
            continue
        if child.type == "variable_name" or (child.type == "word" and node.type == "binary_expression"):
            yield source.of(child)
        else:
            yield from _names(child, None, source)


def _is_given(name: str, source: Source, scope: Scope) -> bool:
    """Whether a variable holds a number that the script takes from whoever calls it."""
    value = scope.variables.get(name)
    number = value.string if isinstance(value, Text) else None
    if number is None or not _NUMBER.fullmatch(number) or int(number) <= _FEW:
        return False
    return re.search(rf"\$\{{{name}:?[-=]".encode(), source.content) is not None
