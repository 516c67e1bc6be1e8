"""Replacing functions of verl: at once, late, by name, on top of one another, and not at all."""

import importlib
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tuner.errors import TunerError
from tuner.inside_verl import installing, verl_process
from tuner.inside_verl.patching import RELEASES, WITH_ENGINE, WITH_LEGACY, Patch, apply_when_imported
from tuner.trainers.verl.defaults import read_defaults

FUNCTIONS = "class Actor:\n    def update(self):\n        return 'verl'\n"
USER = "from verl.early import Actor\nfrom verl.late import answer\n"


def around(word: str) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        return lambda *args: f"{word}({original(*args)})"

    return make


def patch(name: str, module: str, attribute: str, **fields: Any) -> Patch:
    return Patch(name=name, module=module, attribute=attribute, make=around(name), does=name, **fields)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(installing, "say", lines.append)
    monkeypatch.setattr(installing, "_state", None)
    return lines


def test_each_attribute_is_replaced_once_and_as_soon_as_it_exists(fake_verl: Any) -> None:
    fake_verl(
        "0.9.1",
        {"verl.early": FUNCTIONS, "verl.late": "def answer():\n    return 'verl'\n", "verl.user": USER},
    )
    early = importlib.import_module("verl.early")
    patches = (
        patch("a", "verl.early", "Actor.update"),
        patch("b", "verl.early", "Actor.update"),
        patch("late", "verl.late", "answer"),
        patch("gone", "verl.early", "Critic.update"),
        patch("gone late", "verl.late", "question"),
    )
    told: list[tuple[str, bool]] = []
    state = apply_when_imported(patches, lambda which, there: told.append((which.name, there)))
    assert (state.in_place, state.waiting, state.missing) == (["a", "b"], ["late", "gone late"], ["gone"])
    assert early.Actor().update() == "b(a(verl))"
    assert "verl.late" not in sys.modules

    user = importlib.import_module("verl.user")
    assert user.answer() == "late(verl)"
    assert told == [("late", True), ("gone late", False)]
    assert state.missing == ["gone", "gone late"]
    assert user.answer.__wrapped__() == "verl"

    apply_when_imported(patches, lambda *_: None)
    assert early.Actor().update() == "b(a(verl))"
    assert user.answer() == "late(verl)"


def test_modules_that_hold_a_function_by_name_get_the_replacement(fake_verl: Any) -> None:
    fake_verl(
        "0.9.1",
        {"verl.early": FUNCTIONS, "verl.late": "def answer():\n    return 'verl'\n", "verl.user": USER},
    )
    user = importlib.import_module("verl.user")
    apply_when_imported(
        (patch("c", "verl.late", "answer", copies=("verl.user", "verl.nowhere")),), lambda *_: None
    )
    assert user.answer() == "c(verl)"


def test_an_import_that_fails_is_announced_when_it_succeeds(fake_verl: Any) -> None:
    fake_verl("0.9.1", {"verl.late": "import sys\nsys.needed\ndef answer():\n    return 'verl'\n"})
    apply_when_imported((patch("d", "verl.late", "answer"),), lambda *_: None)
    with pytest.raises(AttributeError):
        importlib.import_module("verl.late")
    vars(sys)["needed"] = True
    try:
        assert importlib.import_module("verl.late").answer() == "d(verl)"
    finally:
        del vars(sys)["needed"]


def test_a_known_release_is_patched_and_said_once(fake_verl: Any, said: list[str], monkeypatch: Any) -> None:
    fake_verl("0.9.1", {"verl.early": FUNCTIONS})
    importlib.import_module("verl.early")
    mine = (
        patch("mine", "verl.early", "Actor.update"),
        patch("old", "verl.early", "Actor.update", releases=("0.5.0",)),
        patch("unasked", "verl.early", "Actor.update", wanted=lambda: False),
        patch("later", "verl.late", "answer"),
    )
    monkeypatch.setattr(installing, "PATCHES", mine)
    monkeypatch.setenv("TUNER_HEAD", "saved")
    assert installing.install() is installing.install()
    assert said == ["verl 0.9.1; TUNER_HEAD=saved; in place: mine; as soon as verl imports them: later"]


def test_an_unknown_release_and_no_verl_change_nothing(
    fake_verl: Any, said: list[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(installing, "PATCHES", (patch("mine", "verl.early", "Actor.update"),))
    with monkeypatch.context() as without_verl:
        without_verl.setattr(installing, "running_release", lambda: None)
        assert installing.install() is None
    fake_verl("0.12.0.dev0", {"verl.early": FUNCTIONS})
    early = importlib.import_module("verl.early")
    assert installing.install() is None
    assert early.Actor().update() == "verl"
    assert said[0] == "there is no verl in this environment, so nothing is changed"
    assert said[1].startswith("verl 0.12.0.dev0 is not known, so nothing is changed; known are 0.5.0")


def test_a_bad_value_names_the_variable_and_what_it_may_be(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_HEAD", "fast")
    with pytest.raises(
        TunerError, match="TUNER_HEAD is 'fast'; it must be one of recompute, policy, saved, off"
    ):
        installing.install()
    assert said == []


def test_the_line_is_seen_where_verl_shows_warnings_alone(caplog: pytest.LogCaptureFixture) -> None:
    assert not logging.getLogger().isEnabledFor(logging.INFO)
    verl_process.say("here")
    assert caplog.messages == ["tuner.inside_verl: here"]


def test_releases_have_the_workers_that_their_own_defaults_choose_between() -> None:
    """verl asks for the legacy workers by a key, as long as it has both."""
    asked = tuple(version for version in RELEASES if "use_legacy_worker_impl" in _trainer(version))
    assert asked == WITH_LEGACY
    assert {*WITH_LEGACY, *WITH_ENGINE} == set(RELEASES)


def _trainer(version: str) -> dict[str, Any]:
    return dict(read_defaults(version, "ppo_trainer").tree["trainer"])
