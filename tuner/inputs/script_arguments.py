"""Arguments of a script by their places, which it takes and nobody gave: ``MODEL_PATH=$4``."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace as replaced

from msgspec.structs import replace

from tuner.errors import InputError, Location, cut
from tuner.inputs.asked_arguments import ScriptArguments
from tuner.inputs.secrets import without_secrets
from tuner.inputs.shell.launches import Launch
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.values import Field, Text, Unknown

_PLACE = re.compile(r"\$(?:\{([1-9]\d?)[}:]|([1-9]))")
_USAGE = re.compile(r"(?i)(usage\s*:.*?)[\"']?\s*(?:>\s*&\s*2\s*)?$")
_ENDS = (1, 2, 3, 4, 6, 9)  # numbers of arguments that a script may end without
_CHARACTERS = 80  # of a line of the script


def arguments_of(path: str, content: bytes) -> ScriptArguments:
    """What a script says of its arguments: a function's own look the same, and do no harm."""
    uses: dict[str, tuple[str, str, Location]] = {}
    usage = ""
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        stated = _USAGE.search(line)
        usage = usage or (_shown(stated[1]) if stated else "")
        for match in _PLACE.finditer(line):
            name = f"${match[1] or match[2]}"
            place = Location(source=path, line=number, column=match.start() + 1)
            uses.setdefault(name, (name, _shown(line), place))
    return ScriptArguments(uses=tuple(uses.values()), usage=usage)


def open_arguments(path: str, count: int, first: int = 1) -> tuple[Text, ...]:
    """So many arguments of the script that nobody knows."""
    place = Location(source=path)
    numbers = range(first, first + count)
    return tuple(Text((Unknown(name="", text=f"${number}", location=place),)) for number in numbers)


def further_arguments(path: str) -> Iterator[tuple[Text, ...]]:
    """As many open arguments as a script may end without, fewer first."""
    for count in _ENDS:
        yield open_arguments(path, count)


def with_open_values(
    launches: tuple[Launch, ...],
    scope: Scope,
    arguments: ScriptArguments,
    follow: Callable[[Scope], tuple[Launch, ...]],
) -> tuple[Launch, ...]:
    """The launches with what is empty for want of an argument as the argument that it is.

    Args:
        launches: of the script with the arguments of the scope.
        scope: that it starts in.
        arguments: that it takes.
        follow: gives its launches in another scope.
    """
    missing = arguments.last - len(scope.arguments)
    if missing < 1 or not any(map(_has_empty, launches)):
        return launches
    more = open_arguments(scope.script, missing, len(scope.arguments) + 1)
    try:
        others = follow(replaced(scope, arguments=(*scope.arguments, *more)))
    except InputError:  # with them it goes on and on
        return launches
    by_place = {launch.location: launch for launch in others}
    return tuple(_with_open(launch, by_place.get(launch.location)) for launch in launches)


def _has_empty(launch: Launch) -> bool:
    opened = launch.processes.open_per_node
    return (opened is not None and not opened.text) or any(map(_is_empty, launch.arguments))


def _is_empty(field: Field) -> bool:
    """Whether it is an override without a value: ``key=``."""
    known = field.text.string or ""
    return known.endswith("=") and known.count("=") == 1


def _with_open(launch: Launch, other: Launch | None) -> Launch:
    if other is None:
        return launch
    values = {
        (field.location, field.text.pieces[:1]): field for field in other.arguments if field.text.unknowns
    }
    filled = tuple(
        values.get((field.location, field.text.pieces), field) if _is_empty(field) else field
        for field in launch.arguments
    )
    processes = launch.processes
    if processes.open_per_node is not None and not processes.open_per_node.text:
        processes = replace(processes, open_per_node=other.processes.open_per_node)
    return replace(launch, arguments=filled, processes=processes)


def _shown(line: str) -> str:
    return cut(without_secrets(" ".join(line.split())), _CHARACTERS)
