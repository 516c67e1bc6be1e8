"""The copy of verl that a launch would run in place of a release: defaults, code, what is missing of it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tuner.inputs.tree import dotted
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.protocol import Base
from tuner.trainers.verl.defaults_list import Composition
from tuner.trainers.verl.fingerprint import Likeness
from tuner.trainers.verl.forks.fork import Fork
from tuner.trainers.verl.private_copy import PrivateDefaults
from tuner.trainers.verl.private_defaults import PrivateCopies
from tuner.trainers.verl.releases import BUNDLED, RELEASES
from tuner.versions import installed_version

if TYPE_CHECKING:
    from tuner.inputs.user_input import MissingConfiguration
    from tuner.trainers.verl.trainer_code.package import TrainerCode
    from tuner.trainers.verl.unread_copy import UnreadCopy


class CopyOfLaunch:
    """The copy of verl around a launch, else an installed one, looked for where somebody asks.

    Args:
        folder: in which the launch lies; empty where nobody says.
        package: of the installed verl, where that release is not bundled; else empty.
        requested: the user names the release: of copies that differ, its own is taken.
        composition: the user's files.
        fork: the project that they are for.
        copies: those that have been read.
        config_of: the trainer's configuration, whether or not a release has it.
        composed: the release that a document with all settings is most like.
    """

    def __init__(
        self,
        *,
        folder: str,
        package: str,
        requested: bool,
        composition: Composition,
        fork: Fork | None,
        copies: PrivateCopies,
        config_of: Callable[[str], str],
        composed: Callable[[], Likeness | None],
    ) -> None:
        self._folder, self._package, self._requested = folder, package, requested
        self._composition, self._fork = composition, fork
        self._copies, self._config_of, self._composed = copies, config_of, composed

    def defaults(self, version: str) -> PrivateDefaults | None:
        """The copy of the configuration that a release has, whatever release it is like."""
        return self._around(version) or self._installed(version)

    def on(self, version: str) -> PrivateDefaults | None:
        """The copy of the configuration that a release is run with; another release's is left aside."""
        private = self.defaults(version)
        if private is None or version == private.version or version == RELEASES.installed():
            return private
        return private if private.told_version and private.is_of(version) else None

    def code(self, version: str) -> "TrainerCode | None":
        """The code that the launch would run; None where it runs the release itself."""
        if self._composition.release is not None:
            return None
        private = self.defaults(version)
        if private is None:
            return self._code_around
        if self.on(version) is None:
            return None  # another release was asked for
        return self._copies.code(private.package) or self._code_around

    def missing(self, version: str) -> "MissingConfiguration | None":
        """What is missing of the copy that the launch lies beside."""
        unread = self._unread(version)
        return None if unread is None else unread.missing

    @property
    def told_release(self) -> ReleaseChoice | None:
        """The release of a copy that the launch lies beside and that cannot be read."""
        renames = self._fork is not None and self._fork.renames
        unread = None if renames else self._unread(BUNDLED[-1])
        return None if unread is None else unread.release

    def _unread(self, version: str) -> "UnreadCopy | None":
        if not self._folder or not self._may_be:
            return None
        unread = self._copies.unread(Path(self._folder), self._config_of(version))
        told = unread is not None and unread.installation_decides
        return None if told and (self._requested or RELEASES.installed()) else unread

    def stated_in(self, base: Base, version: str) -> Base:
        """The base with what the copy says of its version, where a copy's configuration is read."""
        private = self.on(version)
        if private is not None and private.lacks:
            base = replace(base, lacks=tuple(map(dotted, private.lacks)))
        if private is None or self._fork is not None:
            return base
        if self._around(version) is not None:
            return replace(base, checkout=private.told_version)
        return replace(base, checkout=installed_version(RELEASES.trainer) or "", installed=True)

    def likeness(self) -> Likeness | None:
        """The release that the user's settings, or the copy of the defaults, are most like."""
        composed = self._composed()
        if composed is not None:
            return composed
        private = self._around(BUNDLED[-1])
        return None if private is None else private.likeness

    def likened(self) -> str:
        """Where stands what is held against the releases."""
        private = self._around(BUNDLED[-1])
        documents = self._composition.documents
        if private is not None:
            return str(private.file)
        return documents[-1].source if documents else ""

    def nearest(self, version: str) -> PrivateDefaults | None:
        """The copy around the launch that lies nearest, as a release has the configuration."""
        return self._around(version)

    def undecided(self, version: str) -> tuple[PrivateDefaults, ...]:
        """The copies of which one runs, where nothing in them says which it is."""
        unread = self._unread(version)
        return () if unread is None else unread.candidates

    def further_copies(self, version: str, nearest: PrivateDefaults) -> Iterator[PrivateDefaults]:
        """The other copies in the repository, whatever they are called, as far as they can be read."""
        from tuner.trainers.verl.trainer_code.find import copies_in_tree  # where keys tell of another one

        for package in copies_in_tree(Path(self._folder).absolute()):
            if package.resolve() != nearest.package.resolve():
                private = self._copies.installed(package, self._config_of(version))
                if private is not None:
                    yield private

    def _around(self, version: str) -> PrivateDefaults | None:
        if not self._folder or not self._may_be:
            return None
        folder, config = Path(self._folder), self._config_of(version)
        private = self._copies.find(folder, config)
        if private is not None or not self._requested:
            return private
        unread = self._copies.unread(folder, config)
        candidates = () if unread is None else unread.candidates
        of_release = [copy for copy in candidates if copy.is_of(version)]
        return of_release[0] if len(of_release) == 1 else None

    def _installed(self, version: str) -> PrivateDefaults | None:
        """The installed package's, where no copy around the launch would be run before it."""
        if not self._package or not self._may_be or self._code_around is not None:
            return None
        return self._copies.installed(Path(self._package), self._config_of(version))

    @property
    def _code_around(self) -> "TrainerCode | None":
        return self._copies.code_around(Path(self._folder)) if self._folder else None

    @property
    def has_code(self) -> bool:
        """Whether a copy of verl lies around the launch, or its configuration does."""
        return self._code_around is not None or self._around(BUNDLED[-1]) is not None

    @property
    def _may_be(self) -> bool:
        """Whether a copy would be what the launch rests on."""
        return not (
            self._composition.release is not None
            or (self._fork is not None and self._fork.renames)
            or self._composed() is not None
        )
