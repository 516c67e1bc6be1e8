"""What pydantic makes of a struct is what it makes of a dataclass with the same fields."""

from collections.abc import Mapping
from dataclasses import make_dataclass
from enum import Enum
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config

from tuner.render.struct_models import STRUCTS


class Colour(Enum):
    RED = "red"


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """A leaf."""

    size: int
    colour: Colour = Colour.RED


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """A tree."""

    height: Annotated[float, Field(description="metres")]
    leaves: tuple[Leaf, ...] = ()
    named: Mapping[str, Leaf]
    crown: Leaf | None = None
    first: Leaf = Leaf(size=1)
    marks: dict[str, int] = msgspec.field(default_factory=dict)


def _dataclass(name: str, text: str, fields: list[Any]) -> Any:
    made = make_dataclass(name, fields, frozen=True, kw_only=True, namespace={"__doc__": text})
    return with_config(ConfigDict(extra="forbid"))(made)


def _twin() -> Any:
    """The structs of these tests written as dataclasses, which pydantic reads by itself."""
    leaf = _dataclass("Leaf", "A leaf.", [("size", int), ("colour", Colour, Colour.RED)])
    members = [
        ("height", Annotated[float, Field(description="metres")]),
        ("leaves", tuple[leaf, ...], ()),
        ("named", Mapping[str, leaf]),
        ("crown", leaf | None, None),
        ("first", leaf, leaf(size=1)),
        ("marks", dict[str, int], Field(default_factory=dict)),
    ]
    return _dataclass("Tree", "A tree.", members)


@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_the_schema_is_that_of_a_dataclass(mode: Any) -> None:
    ours = TypeAdapter(Annotated[tuple[Tree, ...], STRUCTS]).json_schema(mode=mode)
    twin = TypeAdapter(tuple[_twin(), ...]).json_schema(mode=mode)
    for name, text in (("Leaf", "A leaf."), ("Tree", "A tree.")):
        twin["$defs"][name].setdefault("description", text)  # pydantic 2.11 reads none of a made class
    assert ours == twin
    assert ours["$defs"]["Tree"]["additionalProperties"] is False


def test_a_struct_is_written_with_all_its_fields() -> None:
    tree = Tree(height=2.0, leaves=(Leaf(size=3),), named={"a": Leaf(size=4)}, crown=Leaf(size=5))
    adapter = TypeAdapter(Annotated[Tree | None, STRUCTS])
    red = {"colour": "red"}
    assert adapter.dump_python(adapter.validate_python(tree), mode="json") == {
        "height": 2.0,
        "leaves": [{"size": 3, **red}],
        "named": {"a": {"size": 4, **red}},
        "crown": {"size": 5, **red},
        "first": {"size": 1, **red},
        "marks": {},
    }


def test_a_field_of_another_type_is_refused() -> None:
    wrong: Any = "many"
    with pytest.raises(ValidationError, match="size"):
        TypeAdapter(Annotated[Leaf, STRUCTS]).validate_python(Leaf(size=wrong))
