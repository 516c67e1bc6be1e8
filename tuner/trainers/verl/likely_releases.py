"""Which of the releases that a launch may be of have its keys: it was written for one that takes them."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from tuner.inputs.tree import Path
from tuner.language import _
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.verl.releases import BUNDLED
from tuner.trainers.verl.schema import releases_with


def as_likely(guess: ReleaseChoice, keys: Iterable[Path], configs: tuple[str, ...]) -> ReleaseChoice:
    """The guess, with those of the other releases alone that lack no more of the keys than the guessed one.

    A guess that other packages bound is the nearest of those that lack fewest. The newest release of all
    stays: a launch that is read by it may be one to be brought up to it.

    Args:
        guess: a release that nothing names.
        keys: that the user sets, without those that are added to the release's own.
        configs: of verl, any of which may have them.
    """
    lacks = dict.fromkeys(guess.plausible, 0)
    for key in keys:
        having = releases_with(key, configs)
        for version in lacks if having else ():  # what no release has tells nothing
            lacks[version] += version not in having
    version = guess.version
    if version != BUNDLED[-1] and min(lacks.values()) < lacks[version]:
        version = _nearest(guess, [other for other, count in lacks.items() if count == min(lacks.values())])
        reason = _("{reason}; of those that go with it the nearest with the launch's keys")
        guess = replace(guess, version=version, reason=reason.format(reason=guess.reason))
    plausible = tuple(other for other, count in lacks.items() if count <= lacks[version])
    return replace(guess, plausible=plausible)


def _nearest(guess: ReleaseChoice, versions: Sequence[str]) -> str:
    place = guess.plausible.index
    return min(versions, key=lambda version: abs(place(version) - place(guess.version)))
