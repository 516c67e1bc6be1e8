"""Structs in a published schema: pydantic sees each as a model with the same fields."""

from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields
from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, create_model
from pydantic_core import CoreSchema

from tuner.workload.head import UNPUBLISHED


class StructModels:
    """Stands in an ``Annotated`` type whose structs pydantic is to take."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(_translated(source))


STRUCTS = StructModels()


def _translated(hint: Any) -> Any:
    """The type with a model in the place of each struct."""
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _model(hint)
    origin, inner = get_origin(hint), tuple(_translated(argument) for argument in get_args(hint))
    if not inner or inner == get_args(hint):
        return hint
    return reduce(or_, inner) if origin in (Union, UnionType) else origin[inner]


@cache
def _model(struct: type[Struct]) -> type[BaseModel]:
    hints = get_type_hints(struct, include_extras=True)
    definitions: Any = {
        field.name: (_translated(hints[field.name]), _default(field))
        for field in fields(struct)
        if UNPUBLISHED not in getattr(hints[field.name], "__metadata__", ())
    }
    return create_model(
        struct.__name__,
        __config__=ConfigDict(extra="forbid", frozen=True, from_attributes=True),
        __doc__=struct.__doc__,
        **definitions,
    )


def _default(field: FieldInfo) -> Any:
    if field.required:
        return ...
    if field.default is NODEFAULT:
        return Field(default_factory=field.default_factory)
    return (
        _model(type(field.default)).model_validate(field.default)
        if isinstance(field.default, Struct)
        else field.default
    )
