"""Which of the releases that a launch may be of have its keys: it was written for one that takes them."""

from collections.abc import Iterable

from msgspec.structs import replace

from tuner.inputs.tree import Path
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.verl.schema import releases_with


def as_likely(guess: ReleaseChoice, keys: Iterable[Path], configs: tuple[str, ...]) -> ReleaseChoice:
    """The guess, with those of the other releases alone that lack no more of the keys than the guessed one.

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
    most = lacks[guess.version]
    return replace(guess, plausible=tuple(version for version, count in lacks.items() if count <= most))
