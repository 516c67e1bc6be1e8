"""Every key of every release has one class, and the class agrees with what reading looks at."""

from collections.abc import Iterator
from functools import cache

import pytest

from tests.loading import launches_with_config, load
from tests.trainers.launches import STATIC, VERSIONS
from tests.trainers.reads import LAUNCHES, STILL_MOVES, WITH_OLD_REWARDS, keys_read
from tuner.errors import TunerError
from tuner.inputs.tree import dotted, leaves
from tuner.trainers.coverage import Read
from tuner.trainers.key_pattern import pattern
from tuner.trainers.verl import catalogue
from tuner.trainers.verl.coverage.no_effect import NO_EFFECT
from tuner.trainers.verl.coverage.tables import NOT_MODELLED, PPO_COVERAGE
from tuner.trainers.verl.defaults import read_defaults, trainer_configs
from tuner.trainers.verl.releases import BUNDLED, PREVIEWS

ROWS = (*NO_EFFECT, *NOT_MODELLED)


@cache
def leaf_keys(version: str) -> frozenset[str]:
    """The keys of all configurations of a release."""
    trees = (read_defaults(version, config).tree for config in trainer_configs(version))
    return frozenset(dotted(path) for tree in trees for path, _ in leaves(tree) if path)


@cache
def read_keys(version: str) -> frozenset[str]:
    """The keys of a release that some launch has read."""
    looked = set().union(*(keys_read(overrides, version) for overrides in LAUNCHES))
    looked |= keys_read(STATIC, version, "0.6.3")  # what verl's own copy of that vLLM does
    if version in PREVIEWS:  # whose new workers alone have VeOmni
        previewed = (overrides for overrides in LAUNCHES if "model_engine=veomni" in overrides)
        new = "trainer.use_legacy_worker_impl=disable"
        looked |= set().union(*(keys_read((*overrides, new), version) for overrides in previewed))
    looked = looked.union(*(keys_read(it, version, program=STILL_MOVES) for it in WITH_OLD_REWARDS))
    looked.add("model_engine")  # chooses the configuration, before anything is read
    return leaf_keys(version) & looked


@pytest.mark.sampled(6)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_key_has_one_class(version: str) -> None:
    assert len(leaf_keys(version)) > 200
    several = {
        key: rows for key in leaf_keys(version) if len(rows := PPO_COVERAGE.classes(key, version)) != 1
    }
    assert not several


@pytest.mark.parametrize("version", VERSIONS[::3])
def test_the_documentation_is_given_every_key_once(version: str) -> None:
    listed = [key for row in catalogue.key_classes(version) for key in row.keys]
    assert len(set(listed)) == len(listed)
    assert set(listed) == leaf_keys(version)


@pytest.mark.sampled(6)
@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_modelled_is_what_reading_looks_at(version: str) -> None:
    modelled = {key for key in leaf_keys(version) if PPO_COVERAGE.classes(key, version) == (Read.MODELLED,)}
    assert not read_keys(version) - modelled  # classed otherwise: take the key out of that row
    assert not modelled - read_keys(version)  # in the table of keys, and nothing asks for it


def _keys_of_launches() -> Iterator[tuple[str, str]]:
    """The keys that real launches set, with the release."""
    for version, overrides in launches_with_config():
        try:
            settings = load(None, overrides, version=version).settings
        except TunerError:
            continue
        yield from ((key, version) for key in settings.user_keys)


def test_every_pattern_stands_for_a_key() -> None:
    known = {(key, version) for version in BUNDLED for key in leaf_keys(version)}
    known |= {(key, PREVIEWS[version]) for version in PREVIEWS for key in leaf_keys(version)}
    known |= set(_keys_of_launches())  # of sections that a release leaves open
    idle = [
        (row.name, text)
        for row in ROWS
        for text in row.patterns
        if not any(pattern(text).matches(key, version) for key, version in known)
    ]
    assert not idle


def test_names_and_reasons_are_told_apart() -> None:
    names = [*(group.name for group in NO_EFFECT), *(row.title for row in NOT_MODELLED)]
    assert len(set(names)) == len(names)
    assert all(group.reason.endswith(".") for group in NO_EFFECT)
    assert not any(row.reason.endswith(".") for row in NOT_MODELLED)


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.{b,c}", "a.c", True),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.lr_*", "a.lr_decay", True),
        ("a.lr_*", "a.lr", False),
        ("a.**", "a", True),
        ("a.**", "a.b.c", True),
        ("**.c", "a.b.c", True),
        ("a.**", "a.b._target_", False),
        ("a.*", "a._target_", False),
        ("**._target_", "a.b._target_", True),
        ("a.b >=0.6.0 <0.8.0", "a.b", True),
        ("a.b >=0.8.0", "a.b", False),
        ("a.b <0.7.1", "a.b", False),
    ],
)
def test_patterns(text: str, key: str, expected: bool) -> None:
    assert pattern(text).matches(key, "0.7.1") is expected
