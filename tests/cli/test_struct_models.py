"""The schema of a struct is that of a dataclass with its fields, and it is written as the schema says."""

import json
from collections.abc import Mapping
from dataclasses import make_dataclass
from enum import Enum
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import ConfigDict, Field, TypeAdapter, with_config

from tuner.field_marks import UNPUBLISHED
from tuner.render.json_text import json_text, published
from tuner.render.struct_models import model_of


class Colour(Enum):
    RED = "red"


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """A leaf."""

    size: int
    colour: Colour = Colour.RED


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """A tree."""

    height: Annotated[float, msgspec.Meta(description="metres")]
    leaves: tuple[Leaf, ...] = ()
    named: Mapping[str, Leaf]
    crown: Leaf | None = None
    first: Leaf = Leaf(size=1)
    marks: dict[str, int] = msgspec.field(default_factory=dict)
    secret: Annotated[int, UNPUBLISHED] = 7
    weight: Annotated[float | None, msgspec.Meta(description="kilograms")] = None


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
        ("marks", dict[str, int], Field(default={})),
        ("weight", Annotated[float | None, Field(description="kilograms")], None),
    ]
    return _dataclass("Tree", "A tree.", members)


@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_the_schema_is_that_of_a_dataclass(mode: Any) -> None:
    ours = TypeAdapter(tuple[model_of(Tree), ...]).json_schema(mode=mode)  # type: ignore[misc]
    twin = TypeAdapter(tuple[_twin(), ...]).json_schema(mode=mode)
    for name, text in (("Leaf", "A leaf."), ("Tree", "A tree.")):
        twin["$defs"][name].setdefault("description", text)  # pydantic 2.11 reads none of a made class
    assert ours == twin
    assert ours["$defs"]["Tree"]["additionalProperties"] is False


def test_a_struct_is_written_with_the_fields_that_are_published() -> None:
    tree = Tree(height=2.0, leaves=(Leaf(size=3),), named={"a": Leaf(size=4)}, crown=Leaf(size=5))
    red = {"colour": "red"}
    written = {
        "height": 2.0,
        "leaves": [{"size": 3, **red}],
        "named": {"a": {"size": 4, **red}},
        "crown": {"size": 5, **red},
        "first": {"size": 1, **red},
        "marks": {},
        "weight": None,
    }
    assert published(tree) == written
    assert json.loads(json_text(tree)) == written
    assert json_text(tree, indent=None) == json.dumps(written, separators=(",", ":"))


def test_what_is_written_is_what_pydantic_writes_of_the_model() -> None:
    tree = Tree(weight=8, height=1e-7, leaves=(Leaf(size=2**40),), named={}, marks={"\u4e2d": 1})
    assert json_text(tree) == model_of(Tree).model_validate(tree).model_dump_json(indent=2)


def test_what_no_json_can_hold_is_written_as_pydantic_does() -> None:
    assert json.loads(json_text(Tree(height=float("nan"), named={})))["height"] is None
    surrogate = Tree(height=1.0, named={"\udcff": Leaf(size=1)})
    assert "\\udcff" in json_text(surrogate)
    assert list(json.loads(json_text(surrogate))["named"]) == ["\udcff"]
