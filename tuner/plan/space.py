"""The space of a search: every axis with what the trainer makes of each of its values."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import chain
from math import prod
from typing import cast

from msgspec import Struct

from tuner.advise.differences import Changes, changes
from tuner.advise.numerics import weighs_alike
from tuner.advise.reading import Reading
from tuner.override_text import override_key
from tuner.plan.axes import Axis
from tuner.plan.engine_axes import engine_axes
from tuner.plan.layout_axes import layout_axes
from tuner.plan.parts import ChangedParts
from tuner.plan.pass_axes import pass_axes
from tuner.plan.state_axes import state_axes
from tuner.workload import Workload

_FRACTION = {("rollout", "memory_fraction")}
_SLEEP = {("rollout", "frees_memory"), ("rollout", "sleeps_with_cache")}

Choice = tuple[int, ...]
"""The number of an option on every axis; 0 is what the job has."""


class Option(Struct, frozen=True, kw_only=True):
    """One value of an axis as the trainer reads it: the fields that are then others than in the job."""

    text: str
    changes: Changes
    keys: frozenset[str] = frozenset()  # that bring it about


class RealAxis(Struct, frozen=True, kw_only=True):
    """An axis with the options that a release has keys for; the first one leaves the job as it is."""

    name: str
    options: tuple[Option, ...]
    layout: bool


class Space(Struct, frozen=True, kw_only=True, dict=True):
    """Everything that may be chosen for one job on one cluster."""

    base: Workload
    axes: tuple[RealAxis, ...]

    @property
    def size(self) -> int:
        """Settings that there are, legal or not."""
        return prod(len(one.options) for one in self.axes)

    @property
    def unchanged(self) -> Choice:
        """The job as it is."""
        return (0,) * len(self.axes)

    def workload(self, choice: Choice) -> Workload:
        """The job with a choice, as far as its options go together."""
        return cast(Workload, self._changed_parts.of(self.base, choice))

    @cached_property
    def _changed_parts(self) -> ChangedParts:
        return ChangedParts([[option.changes for option in one.options] for one in self.axes])

    @cached_property
    def _cache_axes(self) -> frozenset[int]:
        """The axes that decide the size of a KV cache alone, where that leaves the card in the passes."""
        rollout = self.base.rollout
        if rollout is None or rollout.keeps_cache:
            return frozenset()
        return frozenset(
            place
            for place, one in enumerate(self.axes)
            if all(set(option.changes) <= _FRACTION for option in one.options)
        )

    @cached_property
    def _sleep_axes(self) -> tuple[int, ...]:
        """The axes that decide whether the engine frees memory in the passes."""
        return tuple(
            place
            for place, one in enumerate(self.axes)
            if any(_SLEEP & set(option.changes) for option in one.options)
        )

    def in_passes(self, choice: Choice) -> Choice:
        """The part of a choice that decides what the trainer's passes take of the card."""
        if any(choice[place] for place in self._sleep_axes):
            return choice
        cache = self._cache_axes
        return tuple(0 if place in cache else number for place, number in enumerate(choice))

    def layout(self, choice: Choice) -> Choice:
        """The part of a choice by which plans are told apart."""
        return tuple(number for one, number in zip(self.axes, choice, strict=True) if one.layout)

    def texts(self, choice: Choice) -> tuple[tuple[str, str], ...]:
        """What a choice changes: names of axes with their values."""
        pairs = zip(self.axes, choice, strict=True)
        return tuple((one.name, one.options[number].text) for one, number in pairs if number)


AxesOf = Callable[[Workload], Iterator[Axis]]


def all_axes(workload: Workload) -> Iterator[Axis]:
    """The axes that a plan turns by itself, passes last: jobs that differ in these alone share the most."""
    held = workload.batch.loss_averages_micro_batches
    return chain(
        layout_axes(workload), state_axes(workload), engine_axes(workload), pass_axes(workload, held=held)
    )


def space_of(reading: Reading, *, axes: Sequence[Axis] | None = None, held: Collection[str] = ()) -> Space:
    """The space of a configuration.

    Args:
        reading: the configuration, which starts.
        axes: what may change; None: whatever a plan turns by itself.
        held: keys that nothing may change.
    """
    wanted = all_axes(reading.workload) if axes is None else axes
    real = (_real(reading, one, held) for one in wanted)
    return Space(base=reading.workload, axes=tuple(one for one in real if len(one.options) > 1))


def _real(reading: Reading, wanted: Axis, held: Collection[str]) -> RealAxis:
    options = [Option(text="", changes={})]
    for value in wanted.values:
        option = _option(reading, value.text, value.workload, held)
        if option is not None and all(option.changes != other.changes for other in options):
            options.append(option)
    return RealAxis(name=wanted.name, options=tuple(options), layout=wanted.layout)


def _option(reading: Reading, text: str, wanted: Workload, held: Collection[str]) -> Option | None:
    """What a release makes of a value; None where it has no key for it, or the training would be another."""
    base = reading.workload
    try:
        written = reading.write(wanted)
    except ValueError:
        return None
    keys = frozenset(map(override_key, written.overrides))
    after = written.workload
    if after == base or keys & frozenset(held) or not same_training(base, after):
        return None
    return Option(text=text, changes=changes(base, after), keys=keys)


def same_training(before: Workload, after: Workload) -> bool:
    """Whether two jobs learn the same, but for the order of sums."""
    if after.batch != before.batch or after.actor.head.kind in after.actor.head.rounding:
        return False
    return weighs_alike(before, after)


def nearest(space: Space, workload: Workload) -> Choice:
    """The choice whose options are all part of what a workload changes, with as much of that as there is."""
    wanted = changes(space.base, workload)
    choice = []
    for axis in space.axes:
        parts = [
            (len(option.changes), number)
            for number, option in enumerate(axis.options)
            if all(path in wanted and wanted[path] == value for path, value in option.changes.items())
        ]
        choice.append(max(parts)[1])
    return tuple(choice)
