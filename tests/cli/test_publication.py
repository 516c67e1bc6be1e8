"""What is published of a struct is what the struct has, whichever report it stands in."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest
from msgspec import Struct

from tests.cli.runner import ROOT
from tuner.render.json_text import published
from tuner.render.publication import extended, facts_of, publication_of, publish
from tuner.render.schemas import OUTPUTS, schema

ALONE = """
import importlib, json, sys
from tuner.render.struct_models import model_of

kind = getattr(importlib.import_module(sys.argv[1]), sys.argv[2])
print(json.dumps(model_of(kind, sys.argv[3]).model_json_schema(mode="serialization")))
"""
STRUCTS = {name: (kind, title) for name, (kind, title) in OUTPUTS.items() if issubclass(kind, Struct)}


class Leaf(Struct, frozen=True, kw_only=True):
    """A leaf."""

    size: int
    marks: tuple[tuple[str, float], ...] = ()

    @property
    def area(self) -> float:
        """How much light it takes."""
        return self.size**2


class MeasuredLeaf(Leaf, frozen=True, kw_only=True):
    """A leaf that was measured."""

    grams: int


publish(Leaf, "LeafReport", "area", "marks", types={"marks": dict[str, float]})


def kinds(hint: Any) -> Iterator[type]:
    """All classes that are published below a type."""
    for argument in get_args(hint):
        yield from kinds(argument)
    if isinstance(hint, type) and (issubclass(hint, Struct) or publication_of(hint) is not None):
        yield hint
        for fact in facts_of(hint):
            yield from kinds(fact.hint)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", STRUCTS)
def test_a_report_alone_knows_how_its_structs_are_published(name: str) -> None:
    """In a process that loads no other report, as each command is."""
    kind, title = STRUCTS[name]
    words = [sys.executable, "-c", ALONE, kind.__module__, kind.__name__, title]
    alone = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT, timeout=120).stdout
    whole = schema(name)
    assert json.loads(alone) == {key: whole[key] for key in whole if key not in ("$schema", "$id")}


@pytest.mark.parametrize("name", STRUCTS)
def test_what_is_published_can_be_read_from_python_by_the_same_name(name: str) -> None:
    found = {(kind, fact.name) for kind in kinds(STRUCTS[name][0]) for fact in facts_of(kind)}
    assert len(found) > 10
    missing = [(kind, fact) for kind, fact in found if not hasattr(kind, fact)]
    assert not [f"{kind.__name__}.{fact}" for kind, fact in missing if fact not in get_type_hints(kind)]


def test_facts_are_written_as_they_are_declared() -> None:
    assert published(Leaf(size=3, marks=(("a", 1.5),))) == {"area": 9.0, "marks": {"a": 1.5}}


def test_what_extends_a_struct_is_published_as_that_one() -> None:
    leaf = extended(MeasuredLeaf, Leaf(size=3, marks=(("a", 1.5),)), grams=2, size=4)
    assert (leaf.size, leaf.marks, leaf.grams) == (4, (("a", 1.5),), 2)
    assert published(leaf) == {"area": 16.0, "marks": {"a": 1.5}}
