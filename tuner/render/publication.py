"""How a struct of the model is published: its name in the JSON Schema, and which of its facts are shown.

A struct that is published has no copy. What is published of it are its own fields and properties, under the
names that they have, with the types and the descriptions that stand there. Where a report adds something to
a struct, it is a struct that has the other's fields as well, and :func:`extended` makes it.
"""

from collections.abc import Mapping
from functools import cache, cached_property
from inspect import cleandoc
from typing import Any, TypeVar, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from tuner.field_marks import UNPUBLISHED

_S = TypeVar("_S", bound=Struct)


class Publication(Struct, frozen=True, kw_only=True):
    """What is published of a class, where that is not just its fields."""

    name: str  # of the definition in the schema
    text: str  # its description
    facts: tuple[str, ...]  # fields and properties, in their order; empty: all fields
    types: Mapping[str, Any]  # where another one is published: a table for pairs
    defaults: Mapping[str, Any] | None  # of facts that may be left out; None: those of the fields


class Fact(Struct, frozen=True, kw_only=True):
    """One published field."""

    name: str
    hint: Any  # its type, with the description
    default: Any = NODEFAULT


_PUBLICATIONS: dict[type, Publication] = {}


def publish(
    kind: type,
    name: str,
    *facts: str,
    text: str = "",
    types: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> None:
    """Declare how a class is published.

    Args:
        kind: a class of the model, or of a report.
        name: what the schema calls it.
        facts: its fields and properties that are published, in this order; all fields where there are none.
        text: what the schema says of it; the docstring where there is none.
        types: of facts that are published with another type than they have.
        defaults: of facts that may be left out; where facts are named, all others are always there.
    """
    _PUBLICATIONS[kind] = Publication(
        name=name,
        text=text or cleandoc(kind.__doc__ or ""),
        facts=facts,
        types=types or {},
        defaults={} if facts and defaults is None else defaults,
    )


def publication_of(kind: type) -> Publication | None:
    """How a class is published: as it was declared of itself, or of what it extends; None: as it is."""
    return next((_PUBLICATIONS[base] for base in kind.__mro__ if base in _PUBLICATIONS), None)


@cache
def facts_of(kind: type) -> tuple[Fact, ...]:
    """The published fields of a class, in their order."""
    declared = publication_of(kind)
    hints = get_type_hints(kind, include_extras=True)
    if declared is None or not declared.facts:
        types = {} if declared is None else declared.types
        return tuple(
            Fact(name=field.name, hint=types.get(field.name, hints[field.name]), default=_default(field))
            for field in fields(kind)
            if UNPUBLISHED not in getattr(hints[field.name], "__metadata__", ())
        )
    defaults = declared.defaults or {}
    return tuple(
        Fact(
            name=name,
            hint=declared.types[name] if name in declared.types else hints.get(name) or _returned(kind, name),
            default=defaults.get(name, NODEFAULT),
        )
        for name in declared.facts
    )


def _returned(kind: type, name: str) -> Any:
    """The type of a property."""
    member = getattr(kind, name)
    function = member.func if isinstance(member, cached_property) else member.fget
    return get_type_hints(function, include_extras=True)["return"]


def _default(field: FieldInfo) -> Any:
    if field.required:
        return NODEFAULT
    return field.default_factory() if field.default is NODEFAULT else field.default


def is_table(hint: Any) -> bool:
    """Whether a type is published as an object of JSON with any names."""
    return get_origin(hint) is dict or get_origin(getattr(hint, "__origin__", None)) is dict


def extended(kind: type[_S], base: Struct, **more: Any) -> _S:
    """A struct that has the fields of another one, and further ones or other values."""
    return kind(**{**{name: getattr(base, name) for name in base.__struct_fields__}, **more})
