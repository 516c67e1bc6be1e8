"""The variables of its environment that a script gives a program."""

import json
import re
from collections.abc import Callable, Iterator, Sequence

from tuner.errors import Location, TunerError
from tuner.inputs.environment import EnvironmentVariable
from tuner.inputs.secrets import is_secret
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.values import Field, Text

Read = Callable[[str], tuple[str, bytes] | None]
"""Name and content of a file, None where it is not to be had."""

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_RUNTIME_ENVIRONMENT, _RUNTIME_FILE = "--runtime-env-json", "--runtime-env"


def environment_of(
    scope: Scope,
    in_front: Sequence[tuple[str, Text]],
    words: Sequence[Field],
    place: Location,
    read: Read = lambda name: None,
) -> tuple[EnvironmentVariable, ...]:
    """What a program gets of the shell that starts it, a value that is not wholly known among it.

    Args:
        scope: of that shell.
        in_front: assignments in front of the command.
        words: the command, which may begin with ``env NAME=value``.
        place: of the command.
        read: the files that the script names.
    """
    values: dict[str, EnvironmentVariable] = {}
    of_shell = (
        *_exported(scope, place),
        *((name, value.string, place) for name, value in in_front),
        *_of_env(words),
    )
    of_ray = (*_of_ray(words), *_of_ray_file(words, read))
    for number, (name, value, location) in enumerate((*of_shell, *of_ray)):
        values.pop(name, None)
        known = value is not None and not is_secret(name, value)
        values[name] = EnvironmentVariable(
            name=name,
            value=value if known and value is not None else "",
            location=location,
            of_ray=number >= len(of_shell),
            known=known,
        )
    return tuple(values.values())


def _exported(scope: Scope, place: Location) -> Iterator[tuple[str, str | None, Location]]:
    names = [name for name in scope.variables if scope.exports_all or name in scope.exported]
    scope.effort.copy_values(len(names))
    for name in names:
        value = scope.variables[name]
        known = value.string if isinstance(value, Text) else None  # an array is not exported
        yield name, known, scope.assigned_at.get(name, place)


def _of_env(words: Sequence[Field]) -> Iterator[tuple[str, str | None, Location]]:
    """``env NAME=value program`` and what a launcher is told the same way; behind a program stand its own."""
    for word in words:
        if (word.text.string or "").endswith(".py") or word.text.string == "-m":
            return
        name, equals, value = str(word.text).partition("=")
        if equals and _NAME.fullmatch(name):
            yield name, None if word.text.unknowns else value, word.location


def _of_ray(words: Sequence[Field]) -> Iterator[tuple[str, str | None, Location]]:
    """``ray job submit --runtime-env-json='{"env_vars": {...}}'``: every worker of the job gets these."""
    for text, given in _values(words, _RUNTIME_ENVIRONMENT):
        try:
            variables = json.loads(text)["env_vars"]
            pairs = [(str(name), str(value)) for name, value in variables.items()]
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        yield from ((name, value, given.location) for name, value in pairs)


def _of_ray_file(words: Sequence[Field], read: Read) -> Iterator[tuple[str, str | None, Location]]:
    """``ray job submit --runtime-env=FILE``: the same of a file of YAML, where it is here."""
    for name, _given in _values(words, _RUNTIME_FILE):
        file = read(name)
        if file is None:
            continue
        from tuner.inputs.yaml_file import parse_yaml  # few launches name one

        try:
            document = parse_yaml(file[1].decode("utf-8", "replace"), source=file[0])
        except TunerError:
            continue
        variables = document.tree.get("env_vars")
        for variable, value in variables.items() if isinstance(variables, dict) else ():
            if value is not None:
                yield str(variable), str(value), document.location("env_vars", variable)


def _values(words: Sequence[Field], wanted: str) -> Iterator[tuple[str, Field]]:
    """The values of an option that are wholly known, with the words that they stand in."""
    for word, following in zip(words, (*words[1:], None), strict=True):
        option, equals, text = str(word.text).partition("=")
        given = word if equals else following
        if option == wanted and given is not None and not given.text.unknowns:
            yield (text if equals else str(given.text)), given
