"""The keys that differ between two configurations, or between two releases of one.

All of it follows from what is written down elsewhere: the defaults of both releases, the table of keys with
the releases that read them, and the class of each key.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec import Struct

from tuner.inputs.override_syntax import same
from tuner.inputs.resolution import ABSENT, Resolved, resolved
from tuner.inputs.settings import Settings
from tuner.trainers.key_facts import KeyChange, KeyFate, KeyKind, KeyState
from tuner.trainers.protocol import Loaded
from tuner.trainers.verl.coverage.classes import Class, Read, classes
from tuner.trainers.verl.coverage.no_effect import IdleKeys
from tuner.trainers.verl.keys import KEYS, key
from tuner.trainers.verl.programs import Program, program_of
from tuner.trainers.verl.source import source_of

_ORDER = {KeyKind.MODELLED: 0, KeyKind.NOT_MODELLED: 1, None: 2, KeyKind.NO_EFFECT: 3}


class _Side(Struct, frozen=True, kw_only=True):
    """One configuration, with what reading it looked at."""

    version: str  # of the keys
    release: str
    program: Program
    leaves: Mapping[str, Resolved]
    looked_at: frozenset[str]
    settings: Settings

    @classmethod
    def of(cls, loaded: Loaded) -> "_Side":
        looked_at = loaded.settings.looked_at  # before all keys are
        return cls(
            version=source_of(loaded.settings, loaded.version).version,
            release=loaded.version,
            program=program_of(loaded.settings.defaults),
            leaves={leaf.key: leaf for leaf in resolved(loaded.settings)},
            looked_at=looked_at,
            settings=loaded.settings,
        )

    def knows(self, name: str) -> bool:
        """Whether the release has the key."""
        leaf = self.leaves.get(name)
        return leaf is not None and leaf.default is not ABSENT

    def touched_by(self, name: str) -> bool:
        """Whether the job is read by a key, or the user set it."""
        leaf = self.leaves.get(name)
        return name in self.looked_at or (leaf is not None and leaf.by_user)

    def state(self, name: str, *, classed: bool = True) -> KeyState:
        """The key as it is here; its class takes a while, and is left out of what touches no job."""
        leaf = self.leaves.get(name)
        row = self.row(name) if classed else None
        return KeyState(
            key=name,
            value=None if leaf is None else leaf.value,
            origin=None if leaf is None else leaf.origin,
            by_user=leaf is not None and leaf.by_user,
            kind=None if row is None else _kind(row),
            shown=None if leaf is None else self.settings.shown(name, leaf.value),
        )

    def row(self, name: str) -> Class | None:
        """The class of a key that the release has."""
        if not self.knows(name):
            return None
        if self.program.fine_tunes:
            return Read.MODELLED if name in self.looked_at else None
        return _row(name, self.release)


@lru_cache(maxsize=4096)
def _row(name: str, release: str) -> Class | None:
    return next(iter(classes(name, release)), None)


def changed_keys(before: Loaded, after: Loaded) -> tuple[KeyChange, ...]:
    """The keys that differ between two configurations which have been read, the modelled ones first."""
    sides = _Side.of(before), _Side.of(after)
    moved = dict(_moved(*sides))
    changes = [*_renamed(moved, *sides), *_others(moved, *sides)]
    return tuple(sorted(changes, key=lambda change: (not change.touches, _ORDER[change.kind])))


def key_state(loaded: Loaded, name: str) -> KeyState:
    """A key as one configuration has it."""
    return _Side.of(loaded).state(name)


def _moved(before: _Side, after: _Side) -> Iterator[tuple[str, str]]:
    """Keys that one of both has set or by default, and what the later release reads instead."""
    for meaning in KEYS:
        old = key(meaning, before.version, before.program)
        new = key(meaning, after.version, after.program)
        if old is not None and new is not None and old != new and (before.knows(old) or old in before.leaves):
            yield old, new


def _renamed(moved: Mapping[str, str], before: _Side, after: _Side) -> Iterator[KeyChange]:
    for old, new in moved.items():
        first, second = before.leaves[old], after.leaves.get(new)
        if first.by_user or second is None or not same(first.value, second.value):
            there = first.by_user or second is not None
            change = KeyFate.RENAMED if there else KeyFate.VANISHED
            yield _key_change(change, before, old, after, new)


def _others(moved: Mapping[str, str], before: _Side, after: _Side) -> Iterator[KeyChange]:
    handled = {*moved.keys(), *moved.values()}
    for name in dict.fromkeys([*before.leaves, *after.leaves]):
        change = None if name in handled or name.endswith("_target_") else _change(name, before, after)
        if change is not None:
            yield _key_change(change, before, name, after, name)


def _key_change(change: KeyFate, before: _Side, old: str, after: _Side, new: str) -> KeyChange:
    touches = before.touched_by(old) or after.touched_by(new)
    row = (after.row(new) or before.row(old)) if touches else None
    return KeyChange(
        change=change,
        before=before.state(old, classed=touches),
        after=after.state(new, classed=touches),
        touches=touches,
        reason="" if row is None or isinstance(row, Read) else row.reason,
    )


def _change(name: str, before: _Side, after: _Side) -> KeyFate | None:
    """What became of a key that is called the same in both; None where nothing did."""
    one, other = before.leaves.get(name), after.leaves.get(name)
    by_user = any(leaf is not None and leaf.by_user for leaf in (one, other))
    if before.knows(name) != after.knows(name):
        return KeyFate.VANISHED if before.knows(name) else KeyFate.NEW
    if one is None or other is None or not same(one.value, other.value):
        if by_user:
            return KeyFate.VALUE
        follow_alike = one is not None and other is not None and one.follows and one.follows == other.follows
        return None if follow_alike else KeyFate.DEFAULT
    if before.release == after.release or not (before.touched_by(name) or after.touched_by(name)):
        return None
    first, second = _kind(before.row(name)), _kind(after.row(name))
    if first is KeyKind.MODELLED and second is KeyKind.NO_EFFECT:
        return KeyFate.UNREAD if by_user else None
    return KeyFate.READ if first is KeyKind.NO_EFFECT and second is KeyKind.MODELLED else None


def _kind(row: Class | None) -> KeyKind | None:
    if row is None:
        return None
    if isinstance(row, Read):
        return KeyKind.MODELLED
    return KeyKind.NO_EFFECT if isinstance(row, IdleKeys) else KeyKind.NOT_MODELLED
