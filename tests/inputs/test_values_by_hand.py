"""Small functions of the readers, each on a table of values worked out by hand."""

import math
from typing import Any

import pytest

from tuner.errors import InputError, Location
from tuner.inputs.convert import (
    LARGEST_READ,
    as_flag,
    as_integer,
    as_number,
    as_text,
    described,
    has_too_large,
    number_expected,
)
from tuner.inputs.override_syntax import override_value, same
from tuner.inputs.overrides import Argument, OverrideKind, option_value, parse_overrides
from tuner.inputs.plain_overrides import PlainOverride, read_plain
from tuner.inputs.tree import (
    ABSENT,
    SECTION,
    contains,
    differences,
    dotted,
    leaves,
    lookup,
    merged,
    nested,
    shown,
    split_key,
    without,
)
from tuner.units import LARGEST

HERE = Location(source="x", line=7)


def words(*texts: str) -> list[Argument]:
    return [Argument(text=text, location=HERE) for text in texts]


@pytest.mark.parametrize(
    ("value", "number", "integer", "flag", "text"),
    [
        (3, 3.0, 3, None, "3"),
        (0, 0.0, 0, False, "0"),
        (1, 1.0, 1, True, "1"),
        (2.5, 2.5, None, None, "2.5"),
        (2.0, 2.0, 2, None, "2.0"),
        ("2", 2.0, 2, None, "2"),
        ("2.0", 2.0, 2, None, "2.0"),
        ("1e3", 1000.0, 1000, None, "1e3"),
        ("x", None, None, None, "x"),
        ("", None, None, None, ""),
        (True, None, None, True, None),
        (False, None, None, False, None),
        (None, None, None, None, None),
        ([], None, None, None, None),
        ({}, None, None, None, None),
        (LARGEST, float(LARGEST), LARGEST, None, str(LARGEST)),
        (-LARGEST, -float(LARGEST), -LARGEST, None, str(-LARGEST)),
        (LARGEST * 2, None, None, None, str(LARGEST * 2)),
        (-LARGEST * 2, None, None, None, str(-LARGEST * 2)),
        (10**400, None, None, None, str(10**400)),
        (math.inf, None, None, None, "inf"),
        (math.nan, None, None, None, "nan"),
    ],
)
def test_a_value_as_a_type(
    value: Any, number: float | None, integer: int | None, flag: bool | None, text: str | None
) -> None:
    assert as_number(value) == number
    assert (as_integer(value), type(as_integer(value))) == (integer, type(integer))
    assert as_flag(value) is flag
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("value", "too_large"),
    [
        (LARGEST_READ, False),
        (LARGEST_READ + 1, True),
        (-LARGEST_READ, False),
        (-LARGEST_READ - 1, True),
        (float(LARGEST_READ) * 4, False),
        ([1, LARGEST_READ + 1], True),
        ([1, 2], False),
        ({"a": 1, "b": [LARGEST_READ + 1]}, True),
        ({"a": 1, "b": [2]}, False),
        ("x", False),
        ([], False),
        ({}, False),
    ],
)
def test_a_number_that_no_setting_takes(value: Any, too_large: bool) -> None:
    assert has_too_large(value) is too_large


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (True, "true"),
        (False, "false"),
        ("a", "'a'"),
        ({}, "an empty section"),
        ({"a": 1}, "a section with the keys a"),
        ({"a": 1, "b": 1, "c": 1, "d": 1}, "a section with the keys a, b, c"),
        ([], "[]"),
        (None, "None"),
        (10**30, "a number with 31 digits"),
        (-(10**30), "a number with 31 digits"),
        (LARGEST, str(LARGEST)),
        ("a" * 70, "'" + "a" * 59 + "..."),
        ("a" * 58, "'" + "a" * 58 + "'"),
        ("a" * 59, "'" + "a" * 59 + "..."),
    ],
)
def test_a_value_in_a_message(value: Any, text: str) -> None:
    assert described(value) == text
    if isinstance(value, str):
        assert shown(value) == text


@pytest.mark.parametrize(
    ("minimum", "maximum", "text"),
    [
        (None, None, "a number"),
        (1, None, "a number >= 1"),
        (None, 2, "a number <= 2"),
        (0, 1, "a number from 0 to 1"),
        (0.5, 1, "a number from 0.5 to 1"),
    ],
)
def test_what_is_expected_of_a_number(minimum: float | None, maximum: float | None, text: str) -> None:
    assert number_expected(minimum, maximum) == text


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("a", ("a",)),
        ("a.b.c", ("a", "b", "c")),
        ("a[0].c", ("a", "0", "c")),
        ("a[0][1]", ("a", "0", "1")),
        ("a.'b.c'", ("a", "b.c")),
        ("'a.b'.c", ("a.b", "c")),
        ("'a.b'[2]", ("a.b", "2")),
        ("a..b", ("a", "b")),
        ("", ()),
    ],
)
def test_a_key_and_its_path(key: str, path: tuple[str, ...]) -> None:
    assert split_key(key) == path
    assert split_key(dotted(path)) == path


def test_trees() -> None:
    tree = {"a": {"b": 1, "c": {}}, "d": [1], "e": None}
    assert list(leaves(tree)) == [(("a", "b"), 1), (("a", "c"), {}), (("d",), [1]), (("e",), None)]
    assert list(leaves({})) == [((), {})]
    assert lookup(tree, ("a", "b")) == 1
    assert lookup(tree, ()) is tree
    assert contains(tree, ("e",))
    assert contains(tree, ("a", "c"))
    assert not contains(tree, ("a", "x"))
    assert not contains(tree, ("a", "b", "x"))
    assert not contains(tree, ("d", "0"))
    assert merged({"a": {"b": 1, "c": 2}, "d": 1}, {"a": {"c": 3, "e": 4}}) == {
        "a": {"b": 1, "c": 3, "e": 4},
        "d": 1,
    }
    assert merged({"a": 1}, 2) == 2
    assert merged(1, {"a": 2}) == {"a": 2}
    assert merged({"a": {"b": 1}}, {"a": None}) == {"a": None}
    assert nested(("a", "b"), 1) == {"a": {"b": 1}}
    assert nested((), 1) == 1
    assert without(tree, ("a", "b")) == {"a": {"c": {}}, "d": [1], "e": None}
    assert without(tree, ("e",)) == {"a": {"b": 1, "c": {}}, "d": [1]}
    assert tree == {"a": {"b": 1, "c": {}}, "d": [1], "e": None}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [(("a",), 2)]),
        ({"a": 1}, {}, [((), ()), (("a",), ABSENT)]),
        ({}, {"a": 1}, [((), ("a",)), (("a",), 1)]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, [((), ("b", "a"))]),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, [(("a", "b"), 2)]),
        (
            {"a": {"b": 1}},
            {"a": 3},
            [(("a", SECTION), False), (("a",), 3), (("a",), ()), (("a", "b"), ABSENT)],
        ),
        ({"a": 3}, {"a": {"b": 1}}, [(("a", SECTION), True), (("a",), ("b",)), (("a", "b"), 1)]),
        ({"a": {}}, {"a": 3}, [(("a", SECTION), False), (("a",), 3)]),
    ],
)
def test_where_trees_differ(old: Any, new: Any, expected: list[tuple[Any, object]]) -> None:
    assert differences(old, new) == expected


@pytest.mark.parametrize(
    ("text", "prefix", "key", "value"),
    [
        ("a.b=1", "", "a.b", 1),
        ("+a.b=1", "+", "a.b", 1),
        ("++a.b=1", "++", "a.b", 1),
        ("a=", "", "a", ""),
        ("a=x", "", "a", "x"),
        ("a=x/y-z.w", "", "a", "x/y-z.w"),
        ("a=1.5", "", "a", 1.5),
        ("a=1e-6", "", "a", 1e-6),
        ("a=-1", "", "a", -1),
        ("a=1_000", "", "a", 1000),
        ("a=01", "", "a", "01"),
        ("a=true", "", "a", True),
        ("a=False", "", "a", False),
        ("a=null", "", "a", None),
        ("a=NULL", "", "a", None),
        ("a='x y'", "", "a", "x y"),
        ('a="x y"', "", "a", "x y"),
        ("a=[]", "", "a", []),
        ("a=[ ]", "", "a", []),
        ("a=[1]", "", "a", [1]),
        ("a=[1, x,true]", "", "a", [1, "x", True]),
        ("a=['x y',2]", "", "a", ["x y", 2]),
        ("a=x:y", "", "a", "x:y"),
    ],
)
def test_plain_overrides(text: str, prefix: str, key: str, value: Any) -> None:
    assert read_plain(text) == PlainOverride(prefix=prefix, key=key, value=value)
    [override] = parse_overrides(words(text)).overrides
    assert (override.key, override.kind, override.value, override.text) == (
        key,
        OverrideKind(prefix),
        value,
        text,
    )
    assert type(override.value) is type(value)


@pytest.mark.parametrize("text", ["a", "+++a=1", "a b=1", "a={b:1}", "a=[1", "a=x y", "1a=2", "~a", "a=${b}"])
def test_overrides_that_are_not_plain(text: str) -> None:
    assert read_plain(text) is None


def test_a_long_whole_number_is_left_to_hydra() -> None:
    assert read_plain("a=" + "1" * 1000) == PlainOverride(prefix="", key="a", value=int("1" * 1000))
    assert read_plain("a=" + "1" * 1001) is None


@pytest.mark.parametrize(
    ("texts", "keys", "config_name"),
    [
        (["--", "a=1"], ["a"], None),
        (["--config-name", "c", "a=1"], ["a"], "c"),
        (["--config-name=c", "a=1"], ["a"], "c"),
        (["-cn", "c"], [], "c"),
        (["--config-name=b", "a=1", "--config-name", "c"], ["a"], "c"),
        (["--config-name"], [], ""),
        (["--config-path", "p", "-cd=q", "a=1"], ["a"], None),
        (["-m", "a=1", "--multirun"], ["a"], None),
        (["hydra.run.dir=x", "hydra/launcher=y", "hydrax=1"], ["hydrax"], None),
    ],
)
def test_options_of_hydra(texts: list[str], keys: list[str], config_name: str | None) -> None:
    arguments = parse_overrides(words(*texts))
    assert ([override.key for override in arguments.overrides], arguments.config_name) == (keys, config_name)
    found = option_value(words(*texts), "config_name")
    assert (None if found is None else found.text) == (config_name or None)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("a=[" + "b" * 30, "ends too early", "close the brackets and quotes that are open"),
        ("a=[b,", "ends too early", "a shell ends the word at the space behind the comma"),
        ("a=b]" + "c" * 30, "it stops at ']ccccccccccccccccccc'", "quote the value, for the shell too"),
        ("a=b]c", "it stops at ']c'", "\"a='b]c'\""),
        ("a=]" + "c" * 58, "it stops at", "\"a=']" + "c" * 58),
        ("a=]" + "c" * 60, "it stops at", "\"a='...'\""),
        ("a b", "it has no '='", "write key=value"),
        ("--a=1", "is not an override", "overrides look like key=value"),
        ("a=1,2", "'a=1,2' sweeps over several values: Hydra refuses them", "behind everything else: a=1"),
        ("+a=choice(x,y)", "sweeps over several values", "behind everything else: +a="),
        ("a=range(4,9)", "sweeps over several values", "behind everything else: a=4"),
        ("a=interval(0,1)", "sweeps over several values", "behind everything else: a=VALUE"),
        ("=1", "", "write key=value"),
        ("a=" + "9" * 30, "holds a larger number than any setting takes", ""),
        ("a=[" + "9" * 5000 + "]", "holds a larger number than any setting takes", ""),
        (".".join("a" * 65) + "=1", "is nested too deeply", "give a shorter key or value"),
        ("a={" + "x" * 10_001, "is longer than the limit of 10,000 characters", ""),
    ],
)
def test_overrides_that_are_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_overrides(words(text))
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert caught.value.location == HERE


def test_a_key_of_64_sections_is_read() -> None:
    [override] = parse_overrides(words(".".join("a" * 64) + "=1")).overrides
    assert override.key.count(".") == 63


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "True"),
        (3, "3"),
        (1e-6, "1e-06"),
        ("x", "x"),
        ("", "''"),
        ("true", "'true'"),
        ("3", "'3'"),
        ("x y", "'x y'"),
        ("a:b", "a:b"),
        ("it's", r"'it\'s'"),
        ("a\\", r"'a\\'"),
        ("${a.b}", "${a.b}"),
        ("${a}${b}", "'${a}${b}'"),
        ([1, "a"], "[1,a]"),
        ({"a": 1, "b": [None]}, "{a:1,b:[null]}"),
    ],
)
def test_a_value_as_hydra_reads_it(value: Any, text: str) -> None:
    assert override_value(value) == text


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        (math.nan, math.nan, True),
        (math.nan, 1.0, False),
        (1.0, math.nan, False),
        ([1, 2], [1, 2], True),
        ([1, 2], [1], False),
        ([1], [True], False),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
    ],
)
def test_the_same_value(one: Any, other: Any, expected: bool) -> None:
    assert same(one, other) is expected


def test_a_later_override_names_one_job_of_a_sweep() -> None:
    arguments = parse_overrides(words("--multirun", "a=1,2", "b=x,y", "c=3", "b=y", "+a=2"))
    assert [(one.key, one.value) for one in arguments.overrides] == [("c", 3), ("b", "y"), ("a", 2)]


def test_all_sweeps_that_are_left_are_named_with_one_job() -> None:
    with pytest.raises(InputError) as caught:
        parse_overrides(words("-m", "a=1,2", "b=x,y", "c=3,4", "b=y"))
    assert (
        caught.value.message == "'a=1,2' sweeps over several values, and Hydra starts a job for each of them"
    )
    assert caught.value.hint == "give one of the jobs, behind everything else: a=1 c=3"


def test_a_sweep_behind_the_job_that_was_named_is_open_again() -> None:
    with pytest.raises(InputError):
        parse_overrides(words("a=1", "a=1,2"))
