"""Settings: origins, typed getters and their messages."""

from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tuner.errors import InputError, Location
from tuner.inputs import read_memo
from tuner.inputs.interpolation import UnresolvedError
from tuner.inputs.settings import Layer, Origin, Settings
from tuner.inputs.tree import Tree, merged

DEFAULTS: Tree = {
    "data": {"size": 1024, "path": None, "linked": "${data.size}", "mandatory": "???"},
    "model": {"path": "m", "extra": {}, "opts": {"a": 1, "b": "${oc.select:data.size,2}"}},
    "time": "${now:%H}",
}


def settings(tree: Tree) -> Settings:
    """User values laid on the defaults, each at its own line of a file."""
    origins = {
        (section, key): Origin(layer=Layer.FILE, location=Location(source="c.yaml", line=line, column=3))
        for line, (section, key) in enumerate(((s, k) for s, keys in tree.items() for k in keys), start=1)
    }
    default = Origin(layer=Layer.DEFAULT, text="default of verl 0.9.1")
    return Settings(tree=merged(DEFAULTS, tree), defaults=DEFAULTS, origins=origins, default_origin=default)


def test_values_and_origins() -> None:
    user = settings({"data": {"size": 64}})
    assert user.get("data.size") == 64
    assert user.get("data.linked") == 64
    assert user.default_value("data.size") == 1024
    assert str(user.origin("data.size")) == "c.yaml:1:3"
    assert str(user.origin("data.linked")) == "default of verl 0.9.1"
    assert user.origin("data.zzz") is None
    assert user.is_set("data.size")
    assert user.is_set("data")
    assert not user.is_set("data.linked")
    assert not user.is_set("data.zzz")
    assert user.user_keys == ("data.size",)
    setting = user.setting("data.size")
    assert setting is not None
    assert (setting.value, setting.origin.layer) == (64, Layer.FILE)
    assert user.setting("data.zzz") is None


def test_null_mandatory_and_absent_read_as_the_default() -> None:
    user = settings({})
    for key in ("data.path", "data.mandatory", "data.zzz", "data.size.zzz"):
        assert user.get(key, 5) == 5
        assert user.integer(key, default=5) == 5
        assert user.text(key) is None
        assert user.flag(key, default=True) is True
    assert "data.path" in user
    assert "data.zzz" not in user


def test_section_and_iteration() -> None:
    user = settings({})
    assert user.section("model.opts") == {"a": 1, "b": 1024}
    assert user.section("model") == {"path": "m", "extra": {}, "opts.a": 1, "opts.b": 1024}
    assert user.section("data.size") == {}
    assert user.section("nothing") == {}
    assert "model.opts.b" in list(user)


def test_unresolvable_interpolation_is_an_error_only_for_typed_readers() -> None:
    user = settings({"data": {"size": "${oc.env:BATCH}"}})
    assert user.get("data.size") == "${oc.env:BATCH}"
    assert user.get("time") == "${now:%H}"
    assert user.section("data")["size"] == "${oc.env:BATCH}"
    with pytest.raises(InputError) as caught:
        user.integer("data.linked")
    assert str(caught.value).startswith(
        "c.yaml:1:3: data.linked: the interpolation ${oc.env:BATCH} is not evaluated"
    )


INTEGERS = [(8, 8), ("8", 8), (1e3, 1000), ("1e3", 1000), (" 8 ", 8), (0, 0), (-1, -1), (10**15, 10**15)]
NO_INTEGERS = [1.5, "abc", "", True, [1], {"a": 1}, "1.5", float("inf"), float("nan"), "${"]
NUMBERS = [(0.5, 0.5), ("1e-6", 1e-6), (1, 1.0), ("0.5", 0.5)]
NO_NUMBERS = ["abc", True, [0.5], {}, float("nan"), float("inf"), "50%", 10**400]
FLAGS = [(True, True), (False, False), (1, True), (0, False)]
FLAGS += [("True", True), ("yes", True), ("on", True), ("1", True)]
FLAGS += [(2, True), (1.0, True), (0.0, False)]  # no class has the key for a field
NO_FLAGS = ["", "False", "no", "off", "0", "None", "Ture", [], {"a": 1}]
TEXTS = [("x", "x"), (8, "8"), (0.5, "0.5")]
NO_TEXTS = [True, ["x"], {"a": 1}]


@pytest.mark.parametrize(
    ("getter", "value", "expected"),
    [("integer", *row) for row in INTEGERS]
    + [("number", *row) for row in NUMBERS]
    + [("flag", *row) for row in FLAGS]
    + [("text", *row) for row in TEXTS],
)
def test_typed_getters(getter: str, value: Any, expected: Any) -> None:
    read = getattr(settings({"data": {"size": value}}), getter)("data.size")
    assert (type(read), read) == (type(expected), expected)


@pytest.mark.parametrize(
    ("getter", "value", "expected"),
    [("integer", value, "a whole number") for value in NO_INTEGERS]
    + [("number", value, "a number") for value in NO_NUMBERS]
    + [("flag", value, "true or false, without quotes") for value in NO_FLAGS]
    + [("text", value, "text") for value in NO_TEXTS],
)
def test_wrong_types_name_place_key_and_expectation(getter: str, value: Any, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        getattr(settings({"data": {"size": value}}), getter)("data.size")
    assert str(caught.value).startswith("c.yaml:1:3: data.size: ")
    assert expected in str(caught.value)


@pytest.mark.parametrize("value", [2, 1.0])
def test_a_field_of_a_class_that_is_on_or_off_takes_no_other_number(value: float) -> None:
    user = settings({"data": {"size": value}})
    of_class = replace(user, defaults={"data": {"_target_": "house.Data", "size": False}})
    with pytest.raises(InputError, match="expected true or false"):
        of_class.flag("data.size")
    assert user.flag("data.size") is True


def test_bounds() -> None:
    user = settings({"data": {"size": 0, "path": 1.5}})
    with pytest.raises(InputError, match="expected a whole number >= 1, got 0"):
        user.integer("data.size", minimum=1)
    with pytest.raises(InputError, match=r"expected a number from 0 to 1, got 1\.5"):
        user.number("data.path", minimum=0, maximum=1)
    with pytest.raises(InputError, match=r"expected a number >= 2, got 1\.5"):
        user.number("data.path", minimum=2)
    assert user.number("data.path", minimum=0, maximum=2) == 1.5


def test_choice() -> None:
    user = settings({"data": {"size": "vllm", "path": "vlm"}})
    assert user.choice("data.size", ("vllm", "sglang")) == "vllm"
    assert user.choice("data.mandatory", ("vllm", "sglang"), default="vllm") == "vllm"
    with pytest.raises(InputError, match=r"c\.yaml:2:3: data\.path: expected one of vllm, sglang, got 'vlm'"):
        user.choice("data.path", ("vllm", "sglang"))


def test_error_blames_the_user_key_behind_an_interpolation() -> None:
    with pytest.raises(InputError) as caught:
        settings({"data": {"size": "abc"}}).integer("model.opts.b")
    assert str(caught.value) == "c.yaml:1:3: model.opts.b: expected a whole number, got 'abc'"


def test_long_values_are_cut() -> None:
    with pytest.raises(InputError) as caught:
        settings({"data": {"size": "x" * 10_000}}).integer("data.size")
    assert len(str(caught.value)) < 200


NAMES = ("a", "b", "c", "0")
KEYS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(".".join)
LEAVES = st.one_of(
    st.integers(0, 9),
    st.none(),
    st.builds("${{{}}}".format, KEYS),
    st.builds("${{.{}}}".format, st.sampled_from(NAMES)),
    st.builds("x ${{{}}}".format, KEYS),
    st.builds("${{oc.select:{},7}}".format, KEYS),
    st.lists(st.integers(0, 9), max_size=2),
)
TREES = st.recursive(LEAVES, lambda below: st.dictionaries(st.sampled_from(NAMES), below, max_size=3))
SECTIONS = st.dictionaries(st.sampled_from(NAMES), TREES, max_size=3)
ALL_KEYS = [".".join(path) for length in (1, 2, 3) for path in product(NAMES, repeat=length)]


def reading(config: Settings, key: str) -> object:
    """The value that a resolver gives, the paths behind it, or how it fails."""
    resolver = config._resolver
    try:
        return resolver.read(tuple(key.split(".")))
    except (KeyError, UnresolvedError) as error:
        return type(error), str(error), resolver.path_chain(tuple(key.split(".")))


def made_of(tree: Tree) -> Settings:
    return Settings(tree=tree, defaults={}, origins={}, default_origin=Origin(layer=Layer.DEFAULT))


@example(tree={"a": "${b}", "b": 1}, known=["a"], changes=[("b", 2)])
@example(tree={"a": "${b}", "b": {"c": 1}}, known=["a.c"], changes=[("b.c", 2)])
@example(tree={"a": "${b}", "b": {}}, known=["a.c"], changes=[("b.c", 2)])
@example(tree={"a": "${b}", "b": "${c}", "c": {"a": 1}}, known=["a.a"], changes=[("b", {"a": 2})])
@example(tree={"a": {"a": "${oc.select:a.b,7}"}}, known=["a.a"], changes=[("a.b", {})])
@example(tree={"a": "${oc.select:b.c,7}", "b": 1}, known=["a"], changes=[("b", {"c": 2})])
@example(tree={"a": "${b}", "b": {"c": {}}, "c": 1}, known=["a.c"], changes=[("a", "${c}")])
@example(tree={"a": {"b": {"c": 1}}}, known=["a.b.c"], changes=[("a.b", 2)])
@example(tree={"a": "${b}"}, known=["a.c"], changes=[("c", 1)])
@example(tree={"a": [1, 2], "b": "${a.0}"}, known=["a.0", "b"], changes=[("a.b", 5)])
@given(tree=SECTIONS, known=st.lists(KEYS, max_size=12), changes=st.lists(st.tuples(KEYS, TREES), max_size=3))
def test_a_changed_value_reads_as_in_settings_made_anew(
    tree: Tree, known: list[str], changes: list[tuple[str, Any]]
) -> None:
    now = made_of(tree)
    for key, value in changes:
        for looked_at in known:
            reading(now, looked_at)
        now = now.with_value(key, value)
        fresh = made_of(now.tree)
        assert [reading(now, key) for key in ALL_KEYS] == [reading(fresh, key) for key in ALL_KEYS]
        now.with_value(key, 1)  # leaves these as they are
        assert [reading(now, key) for key in ALL_KEYS] == [reading(fresh, key) for key in ALL_KEYS]


@pytest.mark.sampled(6)
@example(tree={"a": 1, "b": "${a}"}, changes=[(0, "a", 2), (0, "a", True), (0, "a", 1)])
@example(tree={"a": {"b": 1}}, changes=[(0, "a.b", 2), (0, "a", 3), (1, "a.b", 1), (2, "a.b", 2)])
@example(tree={"a": 1}, changes=[(0, "a", {"b": 2}), (0, "a", 3), (1, "a.b", 2), (1, "a.c", 2)])
@example(tree={"a": "${b}", "b": {"d": 1}}, changes=[(0, "a.c", 2), (0, "b.c", 3)])
@given(
    tree=SECTIONS,
    changes=st.lists(st.tuples(st.integers(0, 5), KEYS, st.one_of(TREES, st.booleans())), max_size=5),
)
def test_settings_that_were_made_from_the_same_ones_read_as_if_made_anew(
    tree: Tree, changes: list[tuple[int, str, Any]]
) -> None:
    family = [made_of(tree)]
    for origin, key, value in changes:
        family.append(family[origin % len(family)].with_value(key, value))
    for now in family:
        fresh = made_of(now.tree)
        assert [repr(reading(now, key)) for key in ALL_KEYS] == [
            repr(reading(fresh, key)) for key in ALL_KEYS
        ]
        assert [repr(got(now, key)) for key in ALL_KEYS] == [repr(got(fresh, key)) for key in ALL_KEYS]


@pytest.mark.sampled(4)
@example(trees=[{"a": {"b": 1, "c": "${a.b}"}}, {"a": {"c": "${a.b}"}}, {"a": {"b": 1, "c": "${a.b}"}}])
@example(trees=[{"a": {}}, {"a": {"b": 1}}, {"a": {}}])
@example(trees=[{"a": 1}, {"a": True}, {"a": 1.0}])
@example(trees=[{"a": "${b}", "b": {"c": 1}}, {"a": "${b}", "b": 2}, {"a": "${b}", "b": {"c": 1}}])
@example(trees=[{"a": [1, 2], "b": "${a.0}"}, {"a": [3], "b": "${a.0}"}])
@given(trees=st.lists(SECTIONS, min_size=2, max_size=4))
def test_settings_that_keep_what_others_read_read_as_if_made_anew(trees: list[Tree]) -> None:
    before: Settings | None = None
    for tree in trees:
        now, fresh = made_of(tree), made_of(tree)
        if before is not None:
            now.keep_from(before)
        assert [repr(reading(now, key)) for key in ALL_KEYS] == [
            repr(reading(fresh, key)) for key in ALL_KEYS
        ]
        assert [repr(got(now, key)) for key in ALL_KEYS] == [repr(got(fresh, key)) for key in ALL_KEYS]
        before = now


@pytest.mark.sampled(6)
@example(trees=[{"a": "${a}"}, {"a": {}}, {"a": "${a}", "b": 1}], most=99)
@example(trees=[{"a": {}}, {"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}], most=99)
@example(trees=[{"b": {"c": 1}}, {"a": {}, "b": {"c": 1}}, {"a": "${b}", "b": {"c": 1}}], most=99)
@example(trees=[{"a": {"b": {"c": 1}}}, {"a": 2}, {"a": "${b}", "b": {"b": {"d": 3}}}], most=99)
@example(trees=[{"a": "${b.c}"}, {"a": "${b.c}", "b": {"c": 1}}, {"a": "${b.c}", "b": 2}], most=1)
@given(trees=st.lists(SECTIONS, min_size=2, max_size=4), most=st.sampled_from([1, 3, 99]))
def test_settings_that_rest_on_the_same_released_ones_read_as_if_made_anew(
    trees: list[Tree], most: int
) -> None:
    """Whatever was read before from others that rest on them, and however little is remembered of that."""
    released = made_of(trees[0])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(read_memo, "_MOST", most)
        for tree in [*trees, *reversed(trees)]:
            now, fresh = made_of(tree), made_of(tree)
            now.rest_on(released)
            assert [repr(reading(now, key)) for key in ALL_KEYS] == [
                repr(reading(fresh, key)) for key in ALL_KEYS
            ]
            assert repr(now.resolved()) == repr(fresh.resolved())
            assert [repr(got(now, key)) for key in ALL_KEYS] == [repr(got(fresh, key)) for key in ALL_KEYS]


def test_a_part_is_made_once_for_all_that_rest_on_the_same_settings() -> None:
    released = made_of({"a": {"b": 1}})
    made: list[Any] = []
    others = {"a": {"b": 1}, "c": 2}, {"a": {"b": 1, "d": {"e": 5}}}, {"a": {"b": 3}}, {"a": {"b": 3}, "c": 4}
    for tree in others:
        now = made_of(tree)
        now.rest_on(released)
        now.part("b", (), lambda now=now: made.append(now.get("a.b")))
    assert made == [1, 3]


def test_settings_that_differ_by_a_leaf_keep_the_parts_that_did_not_look_at_it() -> None:
    made: list[str] = []
    first = made_of({"a": {"b": 1, "c": 2}})
    second = made_of({"a": {"b": 1}})  # one of the leaves has gone
    for now in (first, second):
        now.keep_from(first)
        for key in ("a.b", "a.c"):
            now.part(key, (), lambda now=now, key=key: (made.append(key), now.get(key)))
    assert made == ["a.b", "a.c", "a.c"]


def got(config: Settings, key: str) -> object:
    """The value of a key, as a part that is made of it alone."""
    return config.part(key, (), lambda: (config.get(key), key in config))


@example(tree={"a": {"b": "${c}"}, "c": 1}, known=["a"], changes=[("c", 2)])
@example(tree={"a": {"b": "${oc.env:C}", "c": "${b}"}, "b": 1}, known=["a"], changes=[("b", 2)])
@example(tree={"a": {"b": "${oc.env:C}"}}, known=["a"], changes=[("a.c", 2)])
@given(tree=SECTIONS, known=st.lists(KEYS, max_size=12), changes=st.lists(st.tuples(KEYS, TREES), max_size=3))
def test_a_part_is_what_it_would_be_in_settings_made_anew(
    tree: Tree, known: list[str], changes: list[tuple[str, Any]]
) -> None:
    now = made_of(tree)
    for key, value in changes:
        now.part("all", (), lambda now=now: [got(now, looked_at) for looked_at in known])
        now = now.with_value(key, value)
        fresh = made_of(now.tree)
        expected = [(fresh.get(key), key in fresh) for key in known]
        assert now.part("all", (), lambda now=now: [got(now, key) for key in known]) == expected


def test_a_part_is_made_again_where_something_changed_that_it_looked_at() -> None:
    tree = {"a": "${b.c}", "b": {"c": 1, "d": 2}, "e": 3}
    now = Settings(tree=tree, defaults={}, origins={}, default_origin=Origin(layer=Layer.DEFAULT))
    made: list[int] = []

    def total(config: Settings, extra: int) -> int:
        def add() -> int:
            made.append(config.integer("a", default=0) + config.integer("absent", default=0) + extra)
            return made[-1]

        return config.part("total", (extra,), lambda: config.part("inner", (extra,), add))

    assert [total(now, 10), total(now, 10), total(now.with_value("b.d", 4).with_value("e", 5), 10)] == [
        11
    ] * 3
    assert made == [11]
    assert [total(now.with_value("b.c", 6), 10), total(now.with_value("absent", 7), 10)] == [16, 18]
    assert [total(now, 20), total(now, 10)] == [21, 11]
    assert made == [11, 16, 18, 21]


def test_a_part_is_made_once_whatever_way_leads_to_the_same_values() -> None:
    now = made_of({"a": 1, "b": {"c": 2}, "d": 3})
    made: list[int] = []

    def total(config: Settings) -> int:
        def add() -> int:
            made.append(config.integer("a", default=0) + config.integer("b.c", default=0))
            return made[-1]

        return config.part("total", (), add)

    ways = (
        now.with_value("a", 5).with_value("d", 4).with_value("b.c", 6),
        now.with_value("b.c", 6).with_value("a", 5),
        now.with_value("a", 7).with_value("a", 5).with_value("b.c", 6).with_value("b.e", 8),
    )
    assert [total(config) for config in ways] == [11] * 3
    assert made == [11]


def test_a_part_that_cannot_be_made_is_tried_again() -> None:
    tree = {"a": "word"}
    now = Settings(tree=tree, defaults={}, origins={}, default_origin=Origin(layer=Layer.DEFAULT))
    for _ in range(2):
        with pytest.raises(InputError):
            now.part("a", (), lambda: now.integer("a"))
    better = now.with_value("a", 1)
    assert better.part("a", (), lambda: better.integer("a")) == 1


def test_what_is_set_to_null_is_false_and_what_nobody_sets_is_the_default() -> None:
    user = settings({"data": {"size": None}})
    assert user.flag("data.size", default=True) is False
    assert user.flag("data.nowhere", default=True) is True
    assert user.flag("data.nowhere") is False
