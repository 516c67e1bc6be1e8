"""The keys of verl that differ between two configurations, or between two releases of one.

All of it follows from what is written down elsewhere: the defaults of both releases, the table of keys with
the releases that read them, and the class of each key.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from tuner.trainers.key_changes import KeysOfConfiguration
from tuner.trainers.key_changes import changed_keys as changes_between
from tuner.trainers.key_facts import KeyChange, KeyClassification, KeyKind, KeyState
from tuner.trainers.protocol import Loaded
from tuner.trainers.verl.coverage.tables import PPO_COVERAGE
from tuner.trainers.verl.keys import KEYS, key
from tuner.trainers.verl.programs import program_of
from tuner.trainers.verl.source import source_of


def changed_keys(before: Loaded, after: Loaded) -> tuple[KeyChange, ...]:
    """The keys that differ between two configurations which have been read, the modelled ones first."""
    first, second = _keys_of(before), _keys_of(after)
    return changes_between(first, second, dict(_moved(before, first, after)))


def key_states(loaded: Loaded, names: Iterable[str]) -> Mapping[str, KeyState]:
    """Keys as one configuration has them, which takes a look at all of its keys."""
    keys = _keys_of(loaded)
    return {name: keys.state(name) for name in names}


def _keys_of(loaded: Loaded) -> KeysOfConfiguration:
    looked_at = loaded.settings.looked_at
    if program_of(loaded.settings.defaults).fine_tunes:
        classify = partial(_by_look, looked_at)
    else:
        classify = partial(_in_release, loaded.version)
    return KeysOfConfiguration.of(loaded.settings, loaded.version, classify)


def _by_look(looked_at: frozenset[str], name: str) -> KeyClassification:
    return KeyClassification(KeyKind.MODELLED if name in looked_at else None)


def _in_release(release: str, name: str) -> KeyClassification:
    return PPO_COVERAGE.classification(name, release)


def _moved(before: Loaded, first: KeysOfConfiguration, after: Loaded) -> Iterator[tuple[str, str]]:
    """Keys that one of both has set or by default, and what the later release reads instead."""
    (old_version, old_program), (new_version, new_program) = (
        (source_of(side.settings, side.version).version, program_of(side.settings.defaults))
        for side in (before, after)
    )
    for meaning in KEYS:
        old, new = key(meaning, old_version, old_program), key(meaning, new_version, new_program)
        if old is not None and new is not None and old != new and (first.knows(old) or old in first.leaves):
            yield old, new
