"""What the estimate makes of every key of a trainer's program: counted, without effect, or left out."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from tuner.enumeration import Enum
from tuner.language import _
from tuner.trainers.key_facts import Affects, KeyClass, KeyClassification, KeyKind
from tuner.trainers.key_pattern import covered, pattern
from tuner.trainers.key_table import Reaches
from tuner.trainers.omission import IdleKeys, Omission, OmissionContext
from tuner.trainers.protocol import LeftOut
from tuner.versions import at_least


class Read(Enum):
    """The class of what reading a workload looks at."""

    MODELLED = "modelled"


Class = Read | IdleKeys | Omission
Reads = Callable[[str, str], bool]
"""Whether something is so of a key in a release."""


def _nothing(_key: str, _version: str) -> bool:
    return False


class Coverage:
    """The tables of one program of a trainer, and what they say of a key or of a job.

    Args:
        omissions: what is left out, in the order in which it is said.
        no_effect: keys that change neither memory nor time.
        reads: whether reading a workload looks at a key of a release.
        supplies: whether a key that is read takes its value from this one by default.
        reaches: how the trainer's releases follow one another.
    """

    def __init__(
        self,
        omissions: tuple[Omission, ...],
        *,
        no_effect: tuple[IdleKeys, ...] = (),
        reads: Reads = _nothing,
        supplies: Reads = _nothing,
        reaches: Reaches = at_least,
    ) -> None:
        self._omissions, self._no_effect = omissions, no_effect
        self._reads, self._supplies, self._reaches = reads, supplies, reaches
        # Many configurations set the same keys.
        self._numbers_of_key = lru_cache(maxsize=1 << 12)(self._find_numbers)
        self._stated = lru_cache(maxsize=1 << 12)(self._find_stated)
        self._numbers_in = lru_cache(maxsize=64)(self._find_numbers_in)
        self.classification = lru_cache(maxsize=1 << 12)(self._classification)

    def classes(self, key: str, version: str) -> tuple[Class, ...]:
        """Every class that a key falls in, which is one for each key of a release's defaults."""
        rows = self._stated(key, version)
        if rows:
            return rows
        if self._reads(key, version) or self._supplies(key, version):
            return (Read.MODELLED,)
        return tuple(row for row in self._omissions if row.rest and self._covers(row, key, version))

    def leaves_out(self, key: str, version: str) -> bool:
        """Whether a row says that what a key asks for is left out, by its name and whatever else is set."""
        rows = self._stated(key, version)
        return any(isinstance(row, Omission) and (row.trigger is None or row.speaks) for row in rows)

    def key_classes(self, keys: Iterable[str], version: str) -> tuple[KeyClass, ...]:
        """The keys by class: what is modelled, then the rows of both tables, those without a key as well."""
        rows: tuple[Class, ...] = (Read.MODELLED, *self._no_effect, *self._omissions)
        members: dict[Class, list[str]] = {row: [] for row in rows}
        for key in keys:
            members[self.classes(key, version)[0]].append(key)
        return tuple(_key_class(row, tuple(row_keys)) for row, row_keys in members.items())

    def key_class(self, key: str, version: str) -> KeyClass:
        """What is made of one key of a release's defaults."""
        return _key_class(self.classes(key, version)[0], (key,))

    def _classification(self, key: str, version: str) -> KeyClassification:
        """What is made of a key that a release may not have, and why."""
        rows = self.classes(key, version)
        if not rows:
            return KeyClassification()
        row = _key_class(rows[0], (key,))
        return KeyClassification(row.kind, row.reason)

    def left_out(self, job: OmissionContext) -> Iterator[LeftOut]:
        """Every part of the job that the workload does not hold, with the key by which the job has it."""
        keys: dict[int, str] = {}  # the first one of each row that goes by its keys
        for key in job.changed:
            for number in self._numbers_of_key(key, job.version):
                keys.setdefault(number, key)
        for number in self._numbers_in(job.version):
            omission = self._omissions[number]
            name = keys.get(number) if omission.trigger is None else omission.trigger(job)
            if name is None:
                continue
            apart = omission.elsewhere is not None and omission.elsewhere(job) is not None
            yield LeftOut(
                name=omission.title_of(job.settings.started),
                key=name,
                value=job.settings.get(name),
                origin=job.settings.origin(name),
                reason=_(omission.reason),
                affects=Affects.SECONDS if apart else omission.affects,
                priced_as=_(omission.priced_as) if omission.priced_as else "",
            )

    def _find_numbers_in(self, version: str) -> tuple[int, ...]:
        """The numbers of the rows that a release has; of one without keys of its own a trigger tells."""
        return tuple(
            number
            for number, row in enumerate(self._omissions)
            if not row.patterns
            or any(pattern(text).releases.holds(version, self._reaches) for text in row.patterns)
        )

    def _find_numbers(self, key: str, version: str) -> tuple[int, ...]:
        """The numbers of the rows without a trigger that a key belongs to."""
        if any(self._covers(row, key, version) for row in self._no_effect):
            return ()
        numbered = ((number, self._omissions[number]) for number in self._numbers_in(version))
        return tuple(
            number
            for number, row in numbered
            if row.trigger is None
            and self._covers(row, key, version)
            and not (row.rest and (self._reads(key, version) or self._stated(key, version)))
        )

    def _find_stated(self, key: str, version: str) -> tuple[IdleKeys | Omission, ...]:
        """The rows of both tables that name a key."""
        rows: tuple[IdleKeys | Omission, ...] = (
            *self._no_effect,
            *(row for row in self._omissions if not row.rest),
        )
        return tuple(row for row in rows if self._covers(row, key, version))

    def _covers(self, row: IdleKeys | Omission, key: str, version: str) -> bool:
        return covered(row.patterns, key, version, self._reaches)


def _key_class(row: Class, keys: tuple[str, ...]) -> KeyClass:
    if isinstance(row, Read):
        return KeyClass(kind=KeyKind.MODELLED, keys=keys)
    if isinstance(row, IdleKeys):
        return KeyClass(kind=KeyKind.NO_EFFECT, name=row.name, reason=row.reason, keys=keys)
    return KeyClass(
        kind=KeyKind.NOT_MODELLED, name=row.title, reason=row.reason, affects=row.affects, keys=keys
    )
