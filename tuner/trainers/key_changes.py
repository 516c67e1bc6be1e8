"""The keys that differ between two configurations of a trainer, or between two releases of one."""

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from tuner.inputs.override_syntax import same
from tuner.inputs.resolution import ABSENT, Resolved, resolved
from tuner.inputs.settings import Settings
from tuner.trainers.key_facts import KeyChange, KeyClassification, KeyFate, KeyKind, KeyState

_ORDER = {KeyKind.MODELLED: 0, KeyKind.NOT_MODELLED: 1, None: 2, KeyKind.NO_EFFECT: 3}


_UNKNOWN = KeyClassification()


class KeysOfConfiguration(Struct, frozen=True, kw_only=True):
    """The keys of one configuration, with what reading it looked at."""

    release: str
    leaves: Mapping[str, Resolved]
    looked_at: frozenset[str]
    settings: Settings
    classify: Callable[[str], KeyClassification]  # asked of keys that the release has

    @classmethod
    def of(
        cls, settings: Settings, release: str, classify: Callable[[str], KeyClassification]
    ) -> "KeysOfConfiguration":
        """The keys of settings that have been read."""
        looked_at = settings.looked_at  # before all keys are
        return cls(
            release=release,
            leaves={leaf.key: leaf for leaf in resolved(settings)},
            looked_at=looked_at,
            settings=settings,
            classify=classify,
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
        kind = self.classification(name).kind if classed else None
        return KeyState(
            key=name,
            value=None if leaf is None else leaf.value,
            origin=None if leaf is None else leaf.origin,
            by_user=leaf is not None and leaf.by_user,
            kind=kind,
            shown=None if leaf is None else self.settings.shown(name, leaf.value),
        )

    def classification(self, name: str) -> KeyClassification:
        """What the estimate makes of a key; nothing of one that the release does not have."""
        return self.classify(name) if self.knows(name) else _UNKNOWN


def changed_keys(
    before: KeysOfConfiguration, after: KeysOfConfiguration, moved: Mapping[str, str]
) -> tuple[KeyChange, ...]:
    """The keys that differ between two configurations which have been read, the modelled ones first.

    Args:
        before: the first one.
        after: the second one.
        moved: keys of the first one, and what the release of the second one reads instead.
    """
    changes = [*_renamed(moved, before, after), *_other_changes(moved, before, after)]
    return tuple(sorted(changes, key=lambda change: (not change.touches, _ORDER[change.kind])))


def _renamed(
    moved: Mapping[str, str], before: KeysOfConfiguration, after: KeysOfConfiguration
) -> Iterator[KeyChange]:
    for old, new in moved.items():
        first, second = before.leaves[old], after.leaves.get(new)
        if first.by_user or second is None or not same(first.value, second.value):
            there = first.by_user or second is not None
            change = KeyFate.RENAMED if there else KeyFate.VANISHED
            yield _key_change(change, before, old, after, new)


def _other_changes(
    moved: Mapping[str, str], before: KeysOfConfiguration, after: KeysOfConfiguration
) -> Iterator[KeyChange]:
    handled = {*moved.keys(), *moved.values()}
    for name in dict.fromkeys([*before.leaves, *after.leaves]):
        change = None if name in handled or name.endswith("_target_") else _change(name, before, after)
        if change is not None:
            yield _key_change(change, before, name, after, name)


def _key_change(
    change: KeyFate, before: KeysOfConfiguration, old: str, after: KeysOfConfiguration, new: str
) -> KeyChange:
    touches = before.touched_by(old) or after.touched_by(new)
    rows = (after.classification(new), before.classification(old)) if touches else ()
    return KeyChange(
        change=change,
        before=before.state(old, classed=touches),
        after=after.state(new, classed=touches),
        touches=touches,
        reason=next((row.reason for row in rows if row.kind is not None), ""),
    )


def _change(name: str, before: KeysOfConfiguration, after: KeysOfConfiguration) -> KeyFate | None:
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
    first, second = before.classification(name).kind, after.classification(name).kind
    if first is KeyKind.MODELLED and second is KeyKind.NO_EFFECT:
        return KeyFate.UNREAD if by_user else None
    return KeyFate.READ if first is KeyKind.NO_EFFECT and second is KeyKind.MODELLED else None
