"""Values written for Hydra are read back as they were."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.inputs.override_syntax import has_name, override_value, same
from tuner.inputs.overrides import on_command_line, parse_overrides
from tuner.inputs.yaml_file import parse_yaml
from tuner.inputs.yaml_nodes import on_one_line

_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12)
_LEAVES = st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.floats(allow_nan=False) | _TEXT
_VALUES = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=3), max_leaves=6)


def read(text: str) -> Any:
    (override,) = parse_overrides(on_command_line([f"key={text}"])).overrides
    return override.value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "True"),
        (8, "8"),
        ("8", "'8'"),
        (1e-6, "1e-06"),
        ("1e-6", "'1e-6'"),
        ("", "''"),
        ("null", "'null'"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("$HOME/a.parquet", "$HOME/a.parquet"),
        ("${trainer.nnodes}", "${trainer.nnodes}"),
        ("a b", "'a b'"),
        ("it's", "'it\\'s'"),
        ("C:\\", "'C:\\\\'"),
        ("a\\\\'b\\", "'a\\\\\\\\\\'b\\\\'"),
        ("a\\\n", "'a\\\n'"),
        ([1, "a", None], "[1,a,null]"),
        (["a,b"], "['a,b']"),
        ({"a": [1]}, "{a:[1]}"),
        ([], "[]"),
    ],
)
def test_spelling(value: object, text: str) -> None:
    assert override_value(value) == text
    assert same(read(text), value)


@pytest.mark.sampled(3)
@settings(max_examples=60, deadline=None)
@given(_VALUES)
def test_hydra_reads_what_was_written(value: object) -> None:
    if "${" not in str(value):  # what is no interpolation that is whole is none of a configuration
        assert same(read(override_value(value)), value)


@settings(max_examples=60, deadline=None)
@given(_VALUES)
def test_yaml_reads_what_was_written(value: object) -> None:
    document = parse_yaml(f"key: {on_one_line(value)}  # a comment\n", source="x.yaml")
    assert same(document.tree["key"], value)


def test_values_of_other_types_are_not_the_same() -> None:
    assert not same(1, True)
    assert not same([1], [1.0])
    assert not same({"a": 1}, {"b": 1})
    assert same(float("nan"), float("nan"))


def test_names_that_hydra_takes() -> None:
    assert has_name(("a", "b_1"))
    assert not has_name(("a", "b.c"))
    assert not has_name(("a b",))
