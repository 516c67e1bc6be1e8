"""The schema of a struct: pydantic sees it as a model with the same fields, and describes that."""

from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import FieldInfo, fields
from pydantic import BaseModel, ConfigDict, Field, create_model

from tuner.workload.head import UNPUBLISHED


@cache
def model_of(struct: type[Struct], title: str | None = None) -> type[BaseModel]:
    """A model with the published fields of a struct; what a field means is its description."""
    hints = get_type_hints(struct, include_extras=True)
    definitions: Any = {
        field.name: (_translated(hints[field.name]), _default(field))
        for field in fields(struct)
        if UNPUBLISHED not in getattr(hints[field.name], "__metadata__", ())
    }
    return create_model(
        struct.__name__,
        __config__=ConfigDict(extra="forbid", frozen=True, from_attributes=True, title=title),
        __doc__=struct.__doc__,
        **definitions,
    )


def _translated(hint: Any) -> Any:
    """The type with a model in the place of each struct, and with descriptions as pydantic takes them."""
    if isinstance(hint, Meta):
        return Field(description=hint.description)
    if isinstance(hint, type) and issubclass(hint, Struct):
        return model_of(hint)
    # Of an annotated type these are the type and its marks.
    inner = tuple(_translated(argument) for argument in get_args(hint))
    if not inner or inner == get_args(hint):
        return hint
    origin = get_origin(hint)
    return reduce(or_, inner) if origin in (Union, UnionType) else origin[inner]


def _default(field: FieldInfo) -> Any:
    if field.required:
        return ...
    if field.default is NODEFAULT:
        return field.default_factory()  # nothing, which pydantic copies for each model
    return (
        model_of(type(field.default)).model_validate(field.default)
        if isinstance(field.default, Struct)
        else field.default
    )
