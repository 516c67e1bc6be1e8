"""Holds the values of a settings file against what it may say; errors name line, key and the nearest key."""

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec import inspect as types

from tuner.errors import InputError, Location
from tuner.language import _
from tuner.review.project.toml import KeyPath

_T = TypeVar("_T", bound=Struct)
_WHERE = re.compile(r" - at (?:`key` in )?`\$(.*)`$")
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]|\[\.\.\.\]")


def as_struct(values: Any, kind: type[_T], place: Callable[[KeyPath], Location]) -> _T:
    """The values as a struct.

    Args:
        values: as the file has them.
        kind: the struct that says what they may be.
        place: finds the line of a key.

    Raises:
        InputError: a key is not known, or a value is not what its key takes.
    """
    for path, known in _unknown(values, types.type_info(kind), ()):
        near = get_close_matches(str(path[-1]), known, 1, cutoff=0.5)
        hint = (
            _("did you mean {near}?").format(near=near[0])
            if near
            else _("known are {known}").format(known=", ".join(known))
        )
        raise InputError(_("there is no such setting"), location=place(path), key=_dotted(path), hint=hint)
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        message = str(error)
        at = _WHERE.search(message)
        path = _path(at[1]) if at is not None else ()
        value = _value(values, path)
        problem = _WHERE.sub("", message).replace(" | null", "")  # which TOML does not have
        if not isinstance(value, (dict, list)):
            shown = repr(value) if isinstance(value, str) else str(value)
            problem = _("{value} is not what this takes: {problem}").format(value=shown, problem=problem)
        raise InputError(problem, location=place(path), key=_dotted(path) or None) from None


def _unknown(values: Any, kind: types.Type, path: KeyPath) -> Iterator[tuple[KeyPath, tuple[str, ...]]]:
    """Keys that a struct does not have, each with those that it has."""
    kind = kind.type if isinstance(kind, types.Metadata) else kind
    if isinstance(kind, types.StructType) and isinstance(values, dict):
        fields = {field.encode_name: field.type for field in kind.fields}
        for key, value in values.items():
            if key in fields:
                yield from _unknown(value, fields[key], (*path, key))
            else:
                yield (*path, key), tuple(fields)
    elif isinstance(kind, types.VarTupleType) and isinstance(values, list):
        for position, value in enumerate(values):
            yield from _unknown(value, kind.item_type, (*path, position))
    elif isinstance(kind, types.DictType) and isinstance(values, dict):
        known = _words(kind.key_type)
        for key, value in values.items():
            if known and key not in known:
                yield (*path, key), known
            else:
                yield from _unknown(value, kind.value_type, (*path, key))


def _words(kind: types.Type) -> tuple[str, ...]:
    return tuple(member.value for member in kind.cls) if isinstance(kind, types.EnumType) else ()


def _path(text: str) -> KeyPath:
    return tuple(step[1] if step[1] else int(step[2]) for step in _STEP.finditer(text) if step[1] or step[2])


def _value(values: Any, path: KeyPath) -> Any:
    """What stands at a path; None where nothing does."""
    for step in path:
        within = step in values if isinstance(values, dict) else isinstance(values, list)
        if not within:
            return None
        values = values[step]
    return values


def _dotted(path: KeyPath) -> str:
    """A path as a person would write it: ``per-file[1].gpu``, the first element being 1."""
    text = ""
    for step in path:
        text += f"[{step + 1}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")
