"""Interpolations: resolved as OmegaConf does; what would run code or read secrets is left alone."""

import gc
import weakref
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from tuner.inputs.interpolation import Resolver, UnresolvedError
from tuner.inputs.tree import split_key

TREE: dict[str, Any] = {
    "a": {"b": 3, "none": None, "text": "x", "flag": True, "list": [1, "${a.b}", {"deep": "${..0}"}]},
    "c": {
        "absolute": "${a.b}",
        "spaces": "${ a.b }",
        "sibling": "${.own}",
        "own": 1e-6,
        "inner": {"parent": "${..own}", "top": "${...a.b}"},
        "chain": "${.sibling}",
        "joined": "run-${a.text}/${a.b}",
        "bracket": "${a[b]}",
        "element": "${a.list[1]}",
        "element_dot": "${a.list.0}",
        "section": "${a}",
        "select": "${oc.select:a.b,7}",
        "select_missing": "${oc.select:a.zz,7}",
        "select_no_default": "${oc.select:a.zz}",
        "select_none": "${oc.select:a.none,7}",
        "select_mandatory": "${oc.select:mandatory,7}",
        "select_relative": "${oc.select:.own,7}",
        "select_through_value": "${oc.select:a.b.c,7}",
        "select_text": '${oc.select:a.zz,"~/models/x y"}',
        "select_word": "${oc.select:a.zz,token-mean}",
        "select_float": "${oc.select:a.zz,1e-3}",
        "select_bool": "${oc.select:a.zz,False}",
        "select_null": "${oc.select:a.zz, null}",
        "select_list": "${oc.select:a.zz,[]}",
        "select_dict": "${oc.select:a.zz,{}}",
        "select_nested": "${oc.select:a.zz,${oc.select:a.yy,${a.b}}}",
        "select_of_interpolation": "${oc.select:c.joined,7}",
        "escaped": r"\${a.b}",
        "through": "${c.alias.b}",
        "alias": "${a}",
        "alias_relative": "${.inner}",
        "through_relative": "${c.alias_relative.parent}",
        "two": "${a.b}${a.b}",
    },
    "mandatory": "???",
}


@pytest.mark.parametrize("key", TREE["c"])
def test_resolves_as_omegaconf_does(key: str) -> None:
    expected = OmegaConf.to_container(OmegaConf.create(TREE), resolve=True)["c"][key]
    value, _ = Resolver(TREE).read(("c", key))
    assert (type(value), value) == (type(expected), expected)


PIECES = [
    *("${a.b}", "${ a.none }", "${a.flag}", "${c.own}", "${.x}", "${a.zz}", "${oc.select:a.zz,{}}"),
    *(
        "${oc.select:a.b,[]}",
        "\\${a.b}",
        "${",
        "${a.text",
        "a.b",
        "run-",
        "{",
        "}",
        "[]",
        ":",
        ",",
        " ",
        "'",
        '"',
    ),
    *("\\", "$", "\n", "é"),
]


@pytest.mark.sampled(4)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join))
@example("checkpoints/${a.text}/${a.none}")
@example("${oc.select:a.zz,{}}")
@example("${oc.select:a.zz,[]}")
@settings(deadline=None)
def test_any_text_resolves_as_omegaconf_does(text: str) -> None:
    tree = {**TREE, "x": text}
    try:
        expected = OmegaConf.to_container(OmegaConf.create(tree), resolve=True)["x"]
    except (OmegaConfBaseException, RecursionError):
        with pytest.raises(UnresolvedError):
            Resolver(tree).read(("x",))
        return
    value, _ = Resolver(tree).read(("x",))
    assert (type(value), value) == (type(expected), expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${a.zz}", "points at a.zz, which does not exist"),
        ("${a.b.c}", "does not exist"),
        ("${.x}", "in a circle: x -> x"),
        ("${y}", "in a circle: x -> y -> x"),
        ("${mandatory}", "has no value yet"),
        ("${a.b", "malformed"),
        ("${......a}", "above the top"),
        ("${oc.env:HOME}", "not evaluated"),
        ("${oc.env:HOME,fallback}", "not evaluated"),  # which nobody has unset
        ("${oc.env:OPEN,fallback}", "not evaluated"),
        ("${oc.env:BATCH,[1]", "malformed"),
        ("${now:%Y-%m-%d}", "not evaluated"),
        ("${eval:1+1}", "not evaluated"),
        ("run-${oc.env:USER}", "not evaluated"),
    ],
)
def test_unresolvable(text: str, message: str) -> None:
    with pytest.raises(UnresolvedError, match=message):
        Resolver({**TREE, "x": text, "y": "${x}"}, {"OPEN": None}).read(("x",))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${oc.env:GIVEN,fallback}", "64"),
        ("${oc.env:GIVEN}", "64"),
        ("${oc.env:OTHER,fallback}", "fallback"),
        ("${oc.env:OTHER,32}", "32"),
        ("${oc.env:OTHER,null}", None),
        ("${oc.env:OTHER,${oc.env:GIVEN,1}}", "64"),
        ("${oc.decode:${oc.env:GIVEN,1}}", 64),
        ("${oc.decode:${oc.env:OTHER,[1,2]}}", [1, 2]),
        ("${oc.decode:${oc.env:OTHER,null}}", None),
        ("${oc.decode:'${a.b}'}", 3),
        ("${oc.env:OTHER,data}/train", "data/train"),
    ],
)
def test_a_variable_has_what_the_launch_gives_it_or_its_default(
    text: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER", "of this process")
    read, _way = Resolver({**TREE, "x": text}, {"GIVEN": "64"}).read(("x",))
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [("${mul:${a.b},4}", 12), ("${mul:2, ${mul:3,${a.b}}}", 18), ("${mul:-1,${a.b}}", -3)],
)
def test_a_product_of_whole_numbers_is_evaluated(text: str, value: int) -> None:
    """As a project registers it: ``register_new_resolver("mul", lambda x, y: int(x) * int(y))``."""
    read, way = Resolver({**TREE, "x": text}).read(("x",))
    assert (read, type(read)) == (value, int)
    assert ("a", "b") in way


@pytest.mark.parametrize("text", ["${mul:2}", "${mul:2,3,4}", "${mul:${a.text},2}", "${mul:${a.flag},2}"])
def test_what_else_may_be_a_product_is_not(text: str) -> None:
    with pytest.raises(UnresolvedError, match="not evaluated"):
        Resolver({**TREE, "x": text}).read(("x",))


def test_the_environment_is_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_TEST_SECRET", "hunter2")
    with pytest.raises(UnresolvedError) as caught:
        Resolver({"x": "${oc.env:TUNER_TEST_SECRET}"}).read(("x",))
    assert "hunter2" not in str(caught.value)


def test_section_in_a_circle() -> None:
    tree = {"a": "${b}", "b": "${a}"}
    with pytest.raises(UnresolvedError, match="circle"):
        Resolver(tree).read(("a", "x"))


def test_exponential_expansion_ends() -> None:
    tree: dict[str, Any] = {f"k{i}": f"${{k{i + 1}}}${{k{i + 1}}}" for i in range(40)} | {"k40": "x"}
    with pytest.raises(UnresolvedError, match="too much"):
        Resolver(tree).read(("k0",))


def test_long_chain_ends() -> None:
    tree: dict[str, Any] = {f"k{i}": f"${{k{i + 1}}}" for i in range(5000)} | {"k5000": 1}
    with pytest.raises(UnresolvedError, match="too much"):
        Resolver(tree).read(("k0",))


def test_the_way_names_every_stop() -> None:
    _, way = Resolver({"a": "${b.c}", "b": {"c": "${oc.select:d,1}"}, "d": 5}).read(("a",))
    assert way == (("a",), ("b", "c"), ("d",))


@pytest.mark.parametrize(
    ("key", "path"), [("a.b", ("a", "b")), ("a[0].b", ("a", "0", "b")), ("a.'b.c'.d", ("a", "b.c", "d"))]
)
def test_split_key(key: str, path: tuple[str, ...]) -> None:
    assert split_key(key) == path


def test_a_tree_is_let_go_with_its_resolver() -> None:
    """Thousands are made in a search: none waits for a collection of garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        resolver = Resolver({"a": 1, "b": "${a}", "c": "${oc.select:d,null}"})
        assert [resolver.read((name,))[0] for name in "bc"] == [1, None]
        left = weakref.ref(resolver)
        del resolver
        assert left() is None
    finally:
        if was_enabled:
            gc.enable()
