"""Rows of what a trainer's keys ask for and the estimate leaves out, or need not count."""

from collections.abc import Callable, Iterator
from functools import cached_property

from msgspec import Struct

from tuner.inputs.settings import Settings
from tuner.language import _
from tuner.trainers.key_facts import Affects
from tuner.trainers.key_pattern import covered
from tuner.trainers.key_table import Reaches
from tuner.versions import at_least
from tuner.workload import Workload


class OmissionContext(Struct, frozen=True, kw_only=True, dict=True):
    """What decides whether a job has a part that is left out."""

    settings: Settings
    workload: Workload
    version: str  # of the keys
    reaches: Reaches = at_least  # how the trainer's releases follow one another

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """The keys that the user set to something else than the release's own value."""
        return tuple(_differing(self.settings))

    def named(self, *texts: str) -> str | None:
        """The first of them under some patterns."""
        return next(self.all_named(*texts), None)

    def all_named(self, *texts: str) -> Iterator[str]:
        """The keys that stand under some patterns."""
        return (key for key in self.changed if covered(texts, key, self.version, self.reaches))


Trigger = Callable[[OmissionContext], str | None]
"""The key by which a job has what is left out; None where it has not."""


class Omission(Struct, frozen=True, kw_only=True):
    """What the estimate leaves out, with all keys that belong to it."""

    name: str  # completes "the job fits, without ..."; may have {modules} in it
    reason: str  # what the trainer does there that is not counted, one sentence
    patterns: tuple[str, ...]
    affects: Affects = Affects.GPU
    priced_as: str = ""  # one sentence: the seconds have it, as something else; empty: they do not
    trigger: Trigger | None = None  # None: each of its keys, once it differs from the release's default
    speaks: bool = False  # of its keys in any job, whatever its trigger says: no copy adds them
    elsewhere: Trigger | None = None  # gives it GPUs of its own, so that only seconds are missing
    rest: bool = False  # only the keys under its patterns that nothing else covers
    modules: tuple[str, ...] = ()  # of the recipe that adds it
    engine: str = ""  # that trains, which is no module of any program

    @property
    def title(self) -> str:
        """Its name in the language that is chosen, with the modules that it speaks of."""
        return self.title_of("")

    def title_of(self, program: str) -> str:
        """Its name, which names the program that is started where it is another than the recipe's.

        A copy of a recipe may lie elsewhere, and another trainer may have taken over the recipe's keys.
        """
        if self.engine:
            return _(self.name).format(modules=self.engine)
        modules = _(" or ").join(self.modules)
        module = program.removesuffix(".py").replace("/", ".").lstrip(".")
        if not module or module.endswith(self.modules):
            return _(self.name).format(modules=modules)
        same = module.rpartition(".")[2] in {own.rpartition(".")[2] for own in self.modules}
        named = _("{program}, which has keys of {modules},").format(program=program, modules=modules)
        return _(self.name).format(modules=program if same else named)


class IdleKeys(Struct, frozen=True, kw_only=True):
    """Keys that have no effect for one reason."""

    name: str
    reason: str  # one sentence
    patterns: tuple[str, ...]


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
