"""A part of a job that the estimate leaves out, and when a job has it."""

from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache

from msgspec import Struct

from tuner.inputs.settings import Settings
from tuner.language import _
from tuner.trainers.key_facts import Affects
from tuner.trainers.verl.coverage.pattern import pattern
from tuner.trainers.verl.releases import reaches
from tuner.workload import Workload


class OmissionContext(Struct, frozen=True, kw_only=True, dict=True):
    """What decides whether a job has a part that is left out."""

    settings: Settings
    workload: Workload
    version: str  # of the keys

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """The keys that the user set to something else than the release's own value."""
        return tuple(_differing(self.settings))

    def named(self, *texts: str) -> str | None:
        """The first of them under some patterns."""
        return next(self.all_named(*texts), None)

    def all_named(self, *texts: str) -> Iterator[str]:
        """The keys that stand under some patterns."""
        return (key for key in self.changed if _covered(texts, key, self.version))


Trigger = Callable[[OmissionContext], str | None]
"""The key by which a job has what is left out; None where it has not."""


class Omission(Struct, frozen=True, kw_only=True):
    """What the estimate leaves out, with all keys that belong to it."""

    name: str  # completes "the job fits, without ..."; may have {modules} in it
    reason: str  # what verl does there that is not counted, one sentence
    patterns: tuple[str, ...]
    affects: Affects = Affects.GPU
    trigger: Trigger | None = None  # None: each of its keys, once it differs from the release's default
    elsewhere: Trigger | None = None  # gives it GPUs of its own, so that only seconds are missing
    rest: bool = False  # only the keys under its patterns that nothing else covers
    modules: tuple[str, ...] = ()  # of the recipe that adds it

    @property
    def title(self) -> str:
        """Its name in the language that is chosen, with the modules that it speaks of."""
        return _(self.name).format(modules=_(" or ").join(self.modules))

    def holds(self, version: str) -> bool:
        """Whether the release has any of its keys; one without keys of its own has a trigger that tells."""
        return not self.patterns or any(
            pattern(text).releases.holds(version, reaches) for text in self.patterns
        )

    def covers(self, key: str, version: str) -> bool:
        """Whether the key belongs to it in this release."""
        return _covered(self.patterns, key, version)


@lru_cache(maxsize=1 << 12)  # many configurations set the same keys
def _covered(patterns: tuple[str, ...], key: str, version: str) -> bool:
    return any(pattern(text).matches(key, version, reaches) for text in patterns)


def switched(*keys: str) -> Trigger:
    """The first of some keys that is neither off nor empty."""
    return lambda job: next((key for key in keys if job.settings.get(key)), None)


def changed(*texts: str) -> Trigger:
    """The first key under some patterns that differs from the release's own value."""
    return lambda job: job.named(*texts)


def _differing(settings: Settings) -> Iterator[str]:
    for key in settings.user_keys:
        value, default = settings.get(key), settings.released.get(key)
        if value != default and (value or default):  # null, false and empty are all nothing
            yield key
