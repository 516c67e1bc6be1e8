"""A copy of verl whose configuration cannot be composed, and the release that it tells all the same.

Its launch is laid on a release's configuration, which has to be one that its code is like: the newest may
need another engine and refuse what the copy runs.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from tuner.errors import InputError, Location
from tuner.inputs.tree import dotted, leaves
from tuner.inputs.user_input import MissingConfiguration
from tuner.language import _
from tuner.shown_paths import shown_path
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.verl.defaults import file_of
from tuner.trainers.verl.fingerprint import Likeness, likest
from tuner.trainers.verl.private_copy import PrivateDefaults
from tuner.trainers.verl.releases import RELEASES
from tuner.trainers.verl.version_file import PLACE, told_version
from tuner.versions import is_version

_NAMED = 3  # keys in one message
_ABSENT = object()


class UnreadCopy(Struct, frozen=True, kw_only=True):
    """What is missing of a copy, and its release where anything tells that."""

    missing: MissingConfiguration
    release: ReleaseChoice | None
    candidates: tuple[PrivateDefaults, ...] = ()  # of which it is one: the installation decides

    @property
    def installation_decides(self) -> bool:
        """Whether there are several that can be read, and nothing in them says which it is."""
        return bool(self.candidates)


def not_composed(file: Path, package: Path, error: InputError, likeness: Likeness | None) -> UnreadCopy:
    """The copy whose configuration names what is not there.

    Args:
        file: the configuration.
        package: the folder of the package that it lies in.
        error: why it cannot be composed.
        likeness: of what of it can be read; None where that is too little.
    """
    missing = MissingConfiguration(
        name=file.stem,
        looked_in=(str(file.parent),),
        reason=str(error),
        location=error.location or Location(source=str(file)),
    )
    if likeness is None:
        return UnreadCopy(missing=missing, release=_by_version_file(package))
    reason = _("the release that {file} is most like, as far as it can be read: {differences}").format(
        file=shown_path(str(file)), differences=likeness.differences()
    )
    return UnreadCopy(missing=missing, release=ReleaseChoice(version=likeness.version, reason=reason))


def incomplete(package: Path, config: str, reason: str) -> UnreadCopy:
    """The copy that has no trainer in it.

    Args:
        package: the folder of the package.
        config: one of verl's trainer configurations.
        reason: what is missing of it.
    """
    missing = MissingConfiguration(
        name=file_of(config)[0],
        looked_in=(str(package),),
        reason=reason,
        location=Location(source=str(package)),
    )
    return UnreadCopy(missing=missing, release=_by_version_file(package))


def undecided(copies: Sequence[PrivateDefaults], config: str) -> UnreadCopy:
    """What is said where several copies lie in a repository and their configurations differ.

    Args:
        copies: what the configuration is in each of them.
        config: one of verl's trainer configurations.
    """
    packages = [copy.package for copy in copies]
    values = [{dotted(path): value for path, value in leaves(copy.tree)} for copy in copies]
    every = sorted(set().union(*values))
    names = [
        name for name in every if any(of.get(name, _ABSENT) != values[0].get(name, _ABSENT) for of in values)
    ]
    keys = _(", ").join(names[:_NAMED])
    if len(names) > _NAMED:
        keys = _("{keys} and {count} more").format(keys=keys, count=len(names) - _NAMED)
    reason = _(
        "which copy of verl it runs depends on what is installed, and those here differ in {keys}: {folders}"
    ).format(keys=keys, folders=_(", ").join(shown_path(str(package)) for package in packages))
    missing = MissingConfiguration(
        name=file_of(config)[0],
        looked_in=(),
        reason=reason,
        location=Location(source=str(packages[0])),
    )
    return UnreadCopy(missing=missing, release=None, candidates=tuple(copies))


def likeness_in_part(file: Path, config: str) -> Likeness | None:
    """The release that a configuration is most like without the files that cannot be read.

    None where it lacks most of what a release's has.
    """
    from tuner.trainers.verl.composition import composed_in_part  # of few launches

    try:
        tree, unread = composed_in_part(file, file_of(config)[1])
    except InputError:
        return None
    likeness = likest(tree, config, unread)
    return likeness if likeness.shares_most else None


def _by_version_file(package: Path) -> ReleaseChoice | None:
    version = told_version(package)
    if not is_version(version):
        return None
    reason = _("{file} says {version}").format(file=shown_path(str(package / PLACE)), version=version)
    return RELEASES.nearest(version, reason)
