"""The variables of its environment that a script surely gives a program, of those that libraries read."""

import json
from collections.abc import Iterator, Sequence

from tuner.errors import Location
from tuner.inputs.environment import EnvironmentVariable, is_kept
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.values import Field, Text

_RUNTIME_ENVIRONMENT = "--runtime-env-json"


def environment_of(
    scope: Scope, in_front: Sequence[tuple[str, Text]], words: Sequence[Field], place: Location
) -> tuple[EnvironmentVariable, ...]:
    """What a program gets of the shell that starts it; a value that is not wholly known is left out.

    Args:
        scope: of that shell.
        in_front: assignments in front of the command.
        words: the command, which may begin with ``env NAME=value``.
        place: of the command.
    """
    values: dict[str, EnvironmentVariable] = {}
    for name, value, location in (
        *_exported(scope),
        *((name, value.string, place) for name, value in in_front if is_kept(name)),
        *_of_env(words),
        *_of_ray(words),
    ):
        values.pop(name, None)
        if value is not None:
            values[name] = EnvironmentVariable(name=name, value=value, location=location)
    return tuple(values.values())


def _exported(scope: Scope) -> Iterator[tuple[str, str | None, Location]]:
    for name, location in scope.assigned_at.items():
        value = scope.variables.get(name)
        if isinstance(value, Text) and (scope.exports_all or name in scope.exported):
            yield name, value.string, location


def _of_env(words: Sequence[Field]) -> Iterator[tuple[str, str | None, Location]]:
    """``env NAME=value program`` and what a launcher is told the same way; behind a program stand its own."""
    for word in words:
        if (word.text.string or "").endswith(".py") or word.text.string == "-m":
            return
        name, equals, value = str(word.text).partition("=")
        if equals and is_kept(name):
            yield name, None if word.text.unknowns else value, word.location


def _of_ray(words: Sequence[Field]) -> Iterator[tuple[str, str | None, Location]]:
    """``ray job submit --runtime-env-json='{"env_vars": {...}}'``: every worker of the job gets these."""
    for word, following in zip(words, (*words[1:], None), strict=True):
        option, equals, text = str(word.text).partition("=")
        given = word if equals else following
        if option != _RUNTIME_ENVIRONMENT or given is None or given.text.unknowns:
            continue
        try:
            variables = json.loads(text if equals else str(given.text))["env_vars"]
            pairs = [(str(name), str(value)) for name, value in variables.items()]
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        yield from ((name, value, given.location) for name, value in pairs if is_kept(name))
