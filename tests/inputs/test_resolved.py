"""What settings differ in from a release's own, and the fewest overrides that say so."""

from typing import Any

from tests.inputs.test_settings import settings
from tuner.inputs.resolution import ABSENT, Resolved, deleted, overrides, resolved, to_say
from tuner.inputs.settings import Layer, Origin, Settings
from tuner.inputs.tree import Path, Tree

#: ``size`` is followed by ``linked``, ``size`` of ``other`` by nothing.
DEFAULTS: Tree = {
    "data": {"size": 1024, "linked": "${data.size}", "path": None},
    "other": {"size": 3, "list": [1, 2], "empty": {}},
    "alike": {"section": "${other}"},
}
RELEASE = Origin(layer=Layer.DEFAULT, text="default of verl 0.9.1")


def given(tree: Tree, *set_by_user: Path, defaults: Tree = DEFAULTS) -> Settings:
    """Settings with the keys that the user set."""
    origins = {path: Origin(layer=Layer.OVERRIDE, text=".".join(path)) for path in set_by_user}
    return Settings(tree=tree, defaults=defaults, origins=origins, default_origin=RELEASE)


def changed(section: str, **values: Any) -> Tree:
    return {**DEFAULTS, section: {**DEFAULTS[section], **values}}


def leaf(of: Settings, key: str) -> Resolved:
    (only,) = (one for one in resolved(of) if one.key == key)
    return only


def test_every_leaf_with_its_value_its_default_and_who_set_it() -> None:
    user = given(changed("data", size=64), ("data", "size"))
    size = leaf(user, "data.size")
    assert (size.value, size.default, size.differs, size.by_user) == (64, 1024, True, True)
    assert (str(size.origin), size.follows) == ("data.size", ())
    path = leaf(user, "data.path")
    assert (path.value, path.default, path.differs, path.by_user) == (None, None, False, False)
    assert str(path.origin) == "default of verl 0.9.1"
    assert [one.key for one in resolved(user)] == [
        "data.size",
        "data.linked",
        "data.path",
        "other.size",
        "other.list",
        "other.empty",
        "alike.section.size",
        "alike.section.list",
        "alike.section.empty",
    ]


def test_a_key_that_the_release_lacks_differs() -> None:
    user = given(changed("data", more=None), ("data", "more"))
    more = leaf(user, "data.more")
    assert more.default is ABSENT
    assert more.differs


def test_a_value_of_another_type_differs() -> None:
    assert leaf(given(changed("data", size=1024.0), ("data", "size")), "data.size").differs


def test_a_key_follows_another_until_the_user_sets_it() -> None:
    follower = leaf(given(changed("data", size=64), ("data", "size")), "data.linked")
    assert (follower.value, follower.default, follower.follows) == (64, 1024, ("data.size",))
    assert not follower.by_user
    own = leaf(given(changed("data", linked="${other.size}"), ("data", "linked")), "data.linked")
    assert (own.value, own.follows, own.by_user) == (3, (), True)
    assert leaf(given(DEFAULTS), "alike.section.size").follows == ()  # its section does


def test_the_keys_of_a_section_that_the_user_set_are_the_users() -> None:
    """The nearest that was set says who: a section, or the key within it."""
    user = given(changed("other", size=4), ("other",), ("other", "size"))
    assert str(leaf(user, "other.list").origin) == "other"
    assert str(leaf(user, "other.size").origin) == "other.size"
    assert str(leaf(user, "data.size").origin) == "default of verl 0.9.1"


# -- what is gone --------------------------------------------------------------------------------


def test_deleted_keys_are_the_highest_that_are_gone() -> None:
    assert deleted(given(DEFAULTS)) == ()
    tree = {"data": {"size": 1024, "path": None}, "alike": DEFAULTS["alike"], "mine": 1}
    assert deleted(given(tree)) == (("data", "linked"), ("other",))
    deep = {"a": {"b": {"c": {"d": 1}, "e": 2}}}
    assert deleted(given({"a": {"b": {"e": 2}}}, defaults=deep)) == (("a", "b", "c"),)


def test_nothing_is_deleted_within_a_section_that_became_a_value_or_a_value_that_became_a_section() -> None:
    """Both are set anew, as a whole."""
    assert deleted(given({**DEFAULTS, "other": None})) == ()
    assert deleted(given(changed("data", size={"a": 1}))) == ()
    # A text is none either, though characters can be asked for in it.
    assert deleted(given({**DEFAULTS, "other": "list of sizes"})) == ()


# -- what has to be said -------------------------------------------------------------------------


def said(user: Settings) -> list[tuple[str, Any]]:
    return [(".".join(path), value) for path, value in to_say(user)]


def test_what_the_user_set_is_said_where_it_is_another_value() -> None:
    tree = {**changed("data", size=1024, path="x"), "other": {**DEFAULTS["other"], "size": 4}}
    user = given(tree, ("data", "size"), ("data", "path"))
    assert said(user) == [("data.path", "x")]  # the size is the release's own, other.size nobody set


def test_what_the_user_set_in_a_followers_place_is_said_even_to_the_same_value() -> None:
    """The key that it followed may have another value now."""
    user = given(changed("data", linked=1024), ("data", "linked"))
    assert said(user) == [("data.linked", 1024)]


def test_a_text_that_nobody_can_resolve_yet_is_said() -> None:
    """The time of the start is another each time, though the user wrote what the release has."""
    defaults = {"time": "${now:%H}", "size": 1}
    assert said(given(defaults, ("time",), ("size",), defaults=defaults)) == [("time", "${now:%H}")]


def test_overrides_add_what_is_new_and_delete_what_is_gone() -> None:
    tree = {
        "data": {"size": 64, "linked": "${data.size}", "path": None, "more": "a b"},
        "alike": DEFAULTS["alike"],
    }
    user = given(tree, ("data", "size"), ("data", "more"), ("alike",))
    assert overrides(user)[:3] == ("~other", "data.size=64", "+data.more='a b'")
    assert overrides(given(DEFAULTS)) == ()


def test_keys_that_hydra_cannot_name_are_said_with_their_section() -> None:
    """The section as a whole, once, in front of which stands no key that has no name."""
    tree = {**DEFAULTS, "other": {**DEFAULTS["other"], "a.b": 1, "c d": {"e": 2}}}
    user = given(tree, ("other", "a.b"), ("other", "c d"))
    assert overrides(user) == ("++other={size:3,list:[1,2],empty:{},a.b:1,'c d':{e:2}}",)


def test_a_key_at_the_top_that_hydra_cannot_name_cannot_be_said() -> None:
    user = given({**DEFAULTS, "a.b": 1}, ("a.b",))
    assert said(user) == [("a.b", 1)]
    assert overrides(user) == ()


def test_an_empty_configuration_has_no_leaf() -> None:
    assert resolved(given({}, defaults={})) == ()


def test_settings_of_a_file_are_said_as_well() -> None:
    """As the other tests of settings make them, from a file."""
    assert overrides(settings({"data": {"size": 64}})) == ("data.size=64",)
