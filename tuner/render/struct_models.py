"""The schema of a struct: pydantic describes a model with the facts that are published."""

from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Any, Union, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct
from pydantic import BaseModel, ConfigDict, Field, create_model

from tuner.render.publication import facts_of, publication_of


@cache
def model_of(kind: type, title: str | None = None) -> type[BaseModel]:
    """A model with the published facts of a class; what a fact means is its description."""
    declared = publication_of(kind)
    definitions: Any = {
        fact.name: (_translated(fact.hint), _default(fact.default)) for fact in facts_of(kind)
    }
    return create_model(
        kind.__name__ if declared is None else declared.name,
        __config__=ConfigDict(extra="forbid", frozen=True, from_attributes=True, title=title),
        __doc__=kind.__doc__ if declared is None else declared.text,
        **definitions,
    )


def _translated(hint: Any) -> Any:
    """The type with a model in the place of each struct, and with descriptions as pydantic takes them."""
    if isinstance(hint, Meta):
        return Field(description=hint.description)
    if isinstance(hint, type) and (issubclass(hint, Struct) or publication_of(hint) is not None):
        return model_of(hint)
    # Of an annotated type these are the type and its marks.
    inner = tuple(_translated(argument) for argument in get_args(hint))
    if not inner or inner == get_args(hint):
        return hint
    origin = get_origin(hint)
    return reduce(or_, inner) if origin in (Union, UnionType) else origin[inner]


def _default(value: Any) -> Any:
    if value is NODEFAULT:
        return ...
    return model_of(type(value)).model_validate(value) if isinstance(value, Struct) else value
