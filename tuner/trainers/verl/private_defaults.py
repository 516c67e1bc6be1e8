"""A user's own copy of verl's defaults, looked for in the folders above what is given, composed as it stands.

Who vendors verl, or copies its ``ppo_trainer.yaml`` to change it, runs on that copy and not on a release's.
"""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from msgspec import Struct

from tuner.errors import InputError, UnsupportedError
from tuner.file_state import FileState, file_state
from tuner.files import file_names_read, is_there, note, repository_folders
from tuner.inputs.program.find import file_of_program, starting_folders
from tuner.inputs.tree import Path, Tree
from tuner.language import _
from tuner.shown_paths import shown_path
from tuner.trainers.verl.defaults import file_of
from tuner.trainers.verl.fingerprint import Likeness, likest
from tuner.trainers.verl.package_pins import commit_asked_for
from tuner.trainers.verl.private_copy import PACKAGED, PrivateDefaults
from tuner.trainers.verl.releases import RELEASES
from tuner.trainers.verl.trainer_code.find import (
    PackagesBelow,
    code_around,
    code_of_package,
    has_checkout,
    is_package,
    packages_below,
)

if TYPE_CHECKING:
    from tuner.evidence import ChangedCode
    from tuner.inputs.installed_packages import CheckedOut, InstalledPackage
    from tuner.trainers.bundled_releases import ReleaseChoice
    from tuner.trainers.verl.code_of_keys.standing import CodeOfKeys
    from tuner.trainers.verl.patched_keys import AddedKeys
    from tuner.trainers.verl.required_release import RequiredRelease
    from tuner.trainers.verl.rollout_engine_versions import EnginePin
    from tuner.trainers.verl.trainer_code.package import TrainerCode
    from tuner.trainers.verl.trainer_code.project_code import ProjectCode
    from tuner.trainers.verl.unread_copy import UnreadCopy

_PLACES = (  # below a folder above what is given
    "verl/trainer/config",
    "verl/verl/trainer/config",  # a submodule
    "trainer/config",
    "config",
)
_SUBMODULE = _PLACES[1]
_KEPT = 8  # copies that are not read again for every change that is tried


class PrivateCopies:
    """The copies that launches would rest on, each looked for once however many changes are tried."""

    def __init__(self) -> None:
        self._looked_for: dict[tuple[FilePath, str], PrivateDefaults | UnreadCopy | None] = {}
        self._codes: dict[FilePath, TrainerCode | None] = {}
        self._codes_around: dict[FilePath, TrainerCode | None] = {}
        self._packages_below: dict[FilePath, list[FilePath]] = {}  # each by a walk through a repository
        self._installs: dict[tuple[str, str], bool] = {}
        self._missing: dict[tuple[object, ...], bool] = {}
        self._engine_pins: dict[tuple[object, ...], tuple[EnginePin, ...]] = {}
        self._newest: dict[tuple[object, ...], str | None] = {}
        self._projects: dict[tuple[object, ...], ProjectCode | None] = {}
        self._codes_of_keys: dict[tuple[object, ...], CodeOfKeys] = {}
        self._commits: dict[tuple[object, ...], RequiredRelease | None] = {}
        self._spoken: dict[tuple[object, ...], ReleaseChoice | None] = {}
        self._pinned: dict[tuple[object, ...], ReleaseChoice | None] = {}
        self._patches: dict[tuple[object, ...], AddedKeys] = {}

    def code(self, package: FilePath) -> "TrainerCode | None":
        """The code of the package that a copy lies in."""
        if package not in self._codes:
            self._codes[package] = code_of_package(package)
        return self._codes[package]

    def code_around(self, folder: FilePath) -> "TrainerCode | None":
        """The code of the copy in whose repository a folder lies."""
        if folder not in self._codes_around:
            self._codes_around[folder] = code_around(folder.absolute(), self.packages_below)
        return self._codes_around[folder]

    def packages_below(self, folder: FilePath) -> list[FilePath]:
        """The packages of copies in the subfolders of the repository that a folder lies in."""
        if folder not in self._packages_below:
            self._packages_below[folder] = packages_below(folder)
        return self._packages_below[folder]

    def engine_pins(
        self,
        folder: str,
        installed: "tuple[InstalledPackage, ...]",
        copy: FilePath | None,
        *,
        ascend: bool = False,
    ) -> "tuple[EnginePin, ...]":
        """The rollout engines that a launch or the repository around it pins, for Ascend's cards or GPUs."""
        asked = (folder, installed, copy, ascend)
        if asked not in self._engine_pins:
            from tuner.trainers.verl.engine_pins import pinned_engines  # of launches that lie in a folder

            self._engine_pins[asked] = pinned_engines(folder, installed, copy, ascend=ascend)
        return self._engine_pins[asked]

    def commit_asked_for(
        self, folder: str, checked_out: "tuple[CheckedOut, ...]"
    ) -> "RequiredRelease | None":
        """The commit of verl that a launch or the files around it check out."""
        if (folder, checked_out) not in self._commits:
            self._commits[folder, checked_out] = _commit_asked_for(folder, checked_out)
        return self._commits[folder, checked_out]

    def pinned_release(
        self, folder: str, installed: "tuple[InstalledPackage, ...]"
    ) -> "ReleaseChoice | None":
        """The bundled release that stands for the one that a launch or its repository pins."""
        if (folder, installed) not in self._pinned:
            from tuner.trainers.verl.pinned_release import pinned_release  # of launches that lie in a folder

            self._pinned[folder, installed] = pinned_release(folder, installed)
        return self._pinned[folder, installed]

    def adds_key(self, folder: str, launch: tuple[str, ...], key: str) -> bool:
        """Whether a patch that a launch, or a file around it, says to apply adds a key."""
        from tuner.trainers.verl.patched_keys import added_keys, has_key  # of launches with unknown keys

        if (folder, launch) not in self._patches:
            self._patches[folder, launch] = added_keys(folder, launch)
        return has_key(self._patches[folder, launch], key)

    def project(
        self, program: str, folder: str, folders: tuple[str, ...], words: frozenset[str]
    ) -> "ProjectCode | None":
        """The code of a program of the project's own, as far as words of its launch have it run."""
        if (program, folder, folders, words) not in self._projects:
            from tuner.trainers.verl.trainer_code.project_code import project_code  # of few launches

            code = project_code(program, starting_folders(folder, folders), words)
            self._projects[program, folder, folders, words] = code
        return self._projects[program, folder, folders, words]

    def lacks(
        self,
        copy: "TrainerCode | None",
        project: "ProjectCode | None",
        program: str,
        version: str,
        engines: frozenset[str],
        engine_workers: bool,
        key: str,
    ) -> "ChangedCode | None":
        """Where the code that a program runs does otherwise than its release in what a key rests on."""
        from tuner.trainers.verl.code_of_keys.standing import CodeOfKeys, RunningCode  # where code is here

        place = (copy and copy.root, program, project and id(project), version, engines, engine_workers)
        if place not in self._codes_of_keys:
            code = RunningCode(copy, project, program)
            self._codes_of_keys[place] = CodeOfKeys(code, version, engines, engine_workers=engine_workers)
        return self._codes_of_keys[place].lacks(key)

    def bounded_release(
        self,
        folder: str,
        installed: "tuple[InstalledPackage, ...]",
        among: tuple[str, ...],
        environment: str = "",
    ) -> "ReleaseChoice | None":
        """The release that the files around a launch bound by what they ask for, of some of them."""
        from tuner.trainers.verl.pinned_release import bounded_release  # of launches that lie in a folder

        pins = self.engine_pins(folder, installed, None)
        return bounded_release(folder, installed, pins, among, environment)

    def spoken_release(
        self,
        words: tuple[str, ...],
        program: str,
        folder: str,
        folders: tuple[str, ...],
        among: tuple[str, ...],
    ) -> "ReleaseChoice | None":
        """The release that a launch, or the files around it, speak of, among some that have its program."""
        if (words, program, folder, folders, among) not in self._spoken:
            from tuner.trainers.verl.imported_release import having_program  # where nothing names the release
            from tuner.trainers.verl.spoken_release import spoken_release

            starts = starting_folders(folder, folders)
            files = (
                file_of_program(word, starts) if word.endswith(".py") else FilePath(word) for word in words
            )
            named = [file for file in files if file is not None]
            choice = spoken_release(named, folder, having_program(program, among))
            self._spoken[words, program, folder, folders, among] = choice
        return self._spoken[words, program, folder, folders, among]

    def installs(self, folder: str, package: str) -> bool:
        """Whether the files around a launch install a package."""
        if (folder, package) not in self._installs:
            from tuner.trainers.verl.package_pins import installs

            self._installs[folder, package] = installs(folder, package)
        return self._installs[folder, package]

    def said_missing(self, folder: str, launch: tuple[str, ...], package: str) -> bool:
        """Whether a launch or the files around it say that a package cannot be had."""
        asked = (folder, launch, package)
        if asked not in self._missing:
            self._missing[asked] = _is_said_missing(folder, launch, package)
        return self._missing[asked]

    def newest_required(
        self, folder: str, installed: "tuple[InstalledPackage, ...]", package: str
    ) -> str | None:
        """The newest version of a package that a launch, or the files around it, name or allow."""
        if (folder, installed, package) not in self._newest:
            from tuner.trainers.verl.package_pins import newest_named

            self._newest[folder, installed, package] = newest_named(folder, installed, package)
        return self._newest[folder, installed, package]

    def find(self, folder: FilePath, config: str) -> PrivateDefaults | None:
        """The copy, as :func:`private_defaults` finds it."""
        copy = self._look(folder, config)
        return copy if isinstance(copy, PrivateDefaults) else None

    def installed(self, package: FilePath, config: str) -> PrivateDefaults | None:
        """The configuration of an installed package; None where it cannot be composed."""
        file = _in_package(package, config)
        if not is_there(file, FilePath.is_file):
            return None
        reading = _reading(file, config)
        note(reading.states)
        return reading.private

    def unread(self, folder: FilePath, config: str) -> "UnreadCopy | None":
        """The copy in the launch's own repository, where that cannot be read."""
        copy = self._look(folder, config)
        return None if isinstance(copy, PrivateDefaults) else copy

    def _look(self, folder: FilePath, config: str) -> "PrivateDefaults | UnreadCopy | None":
        key = folder, config
        if key not in self._looked_for:
            self._looked_for[key] = private_defaults(folder, config, self.packages_below)
        return self._looked_for[key]


def private_defaults(
    folder: FilePath, config: str, below: PackagesBelow = packages_below
) -> "PrivateDefaults | UnreadCopy | None":
    """The copy of one of verl's configurations that a launch from this folder would rest on.

    None where none is found, or where it does not hold what verl's do; one that is not read where the copy of
    the package that the launch lies beside has one that cannot be composed, or no trainer.

    Args:
        folder: where the configuration or the script lies.
        config: one of verl's trainer configurations, fine-tuning's among them.
        below: what finds the copies in the subfolders of the repository.
    """
    unread: UnreadCopy | None = None
    for file in _candidates(folder.absolute(), config, below):
        reading = _reading(file, config)
        note(reading.states)
        if reading.private is not None:
            return reading.private
        if reading.error is not None and file.parts[-4:-1] == PACKAGED:
            from tuner.trainers.verl.unread_copy import not_composed  # which is seldom

            package = file.parent.parent.parent
            unread = unread or not_composed(file, package, reading.error, reading.likeness)
    return (
        unread
        or _incomplete_package(folder.absolute(), config)
        or _one_of_several(below(folder.absolute()), config)
    )


def _one_of_several(packages: Iterable[FilePath], config: str) -> "PrivateDefaults | UnreadCopy | None":
    """The copies in subfolders where those say the same; else that nobody knows which of them runs."""
    copies = list[PrivateDefaults]()
    for package in packages:
        if not is_there(file := _in_package(package, config), FilePath.is_file):
            continue
        reading = _reading(file, config)
        note(reading.states)
        if reading.private is not None:
            copies.append(reading.private)
    if not copies or all(copy.tree == copies[0].tree for copy in copies):
        return copies[0] if copies else None
    from tuner.trainers.verl.unread_copy import undecided  # which is seldom

    return undecided(copies, config)


def _incomplete_package(folder: FilePath, config: str) -> "UnreadCopy | None":
    """The package where that is an empty folder, or has no trainer in it."""
    for above in repository_folders(folder):
        package = above / "verl"
        if reason := _lacks_trainer(package):
            from tuner.trainers.verl.unread_copy import incomplete  # which is seldom

            return incomplete(package, config, reason)
    return None


def _lacks_trainer(package: FilePath) -> str:
    """Why a folder is no whole package; empty where it is none at all, or has a trainer."""
    if not is_package(package) or is_there(package / "trainer", FilePath.is_dir):
        return ""
    if any(package.iterdir()):
        return _("{folder} has no trainer in it").format(folder=shown_path(str(package)))
    return _("{folder} is empty, a submodule that is not checked out").format(folder=shown_path(str(package)))


class _Reading(Struct, frozen=True, kw_only=True):
    """What a file was read as, and the state of the files that decided it."""

    private: PrivateDefaults | None
    error: InputError | None = None  # why it cannot be composed
    likeness: Likeness | None = None  # of what can be read of one that cannot be composed
    states: dict[str, FileState]  # by name; also of files that were looked for and are not there


_readings: dict[tuple[FilePath, str], _Reading] = {}  # the latest ones


def _reading(file: FilePath, config: str) -> _Reading:
    """A copy as it was read before, unless one of its files has been written since."""
    known = _readings.pop((file, config), None)
    if known is None or known.states != _states(known.states):
        known = _of_earlier_run(file, config) or _read(file, config)
    if len(_readings) >= _KEPT:
        del _readings[next(iter(_readings))]
    _readings[file, config] = known
    return known


def _states(names: Iterable[str]) -> dict[str, FileState]:
    return {name: file_state(name) for name in sorted(names)}


def _of_earlier_run(file: FilePath, config: str) -> _Reading | None:
    """A copy as an earlier run read it."""
    from tuner.trainers.verl.kept_defaults import kept_defaults  # where there is a copy, which is seldom

    kept = kept_defaults(file, config)
    if kept is None:
        return None
    private = PrivateDefaults(file=file, tree=kept.tree, likeness=kept.likeness(config))
    return _Reading(private=private, states=kept.states)


def _read(file: FilePath, config: str) -> _Reading:
    """A copy, and the files that it is read from.

    None of a file that cannot be composed, or has too little of what verl's has.
    """
    from tuner.trainers.verl.kept_defaults import keep_defaults  # where there is a copy that is not kept
    from tuner.trainers.verl.oldest_by_code import oldest_by_code

    private: PrivateDefaults | None = None
    error: InputError | None = None
    in_part: Likeness | None = None
    with file_names_read() as names, contextlib.suppress(UnsupportedError):
        try:
            tree, lacks = _tree(file, config)
            likeness = likest(tree, config)
        except InputError as fault:
            from tuner.trainers.verl.unread_copy import likeness_in_part  # which is seldom

            error, in_part = fault, likeness_in_part(file, config)
        else:
            if likeness.shares_most:  # by its keys alone: the release of its code may have many more
                oldest = oldest_by_code(file.parent.parent.parent, config)
                likeness = likest(tree, config, oldest=oldest) if oldest else likeness
                private = PrivateDefaults(file=file, tree=tree, likeness=likeness, lacks=lacks)
    states = _states({*names, str(file)})
    if private is not None and not private.lacks:
        keep_defaults(file, config, private.likeness, states)
    return _Reading(private=private, error=error, likeness=in_part, states=states)


def _tree(file: FilePath, config: str) -> tuple[Tree, tuple[Path, ...]]:
    """A copy as it is composed, and the sections that its generated form has in place of missing files.

    Raises:
        InputError: it cannot be composed, or not all that is missing stands beside it.
    """
    from tuner.trainers.verl.composition import composed, composed_with_generated

    try:
        return composed(file, file_of(config)[1]), ()
    except InputError:
        with contextlib.suppress(InputError):
            whole = composed_with_generated(file, file_of(config)[1])
            if whole is not None:
                return whole
        raise


def _candidates(folder: FilePath, config: str, below: PackagesBelow) -> Iterator[FilePath]:
    for above in repository_folders(folder):  # what lies above is no part of the user's repository
        places = [above / place for place in _PLACES if place != _SUBMODULE or has_checkout(above)]
        if above == folder:
            places.insert(0, above)
        for place in places:
            file = place / f"{file_of(config)[0]}.yaml"
            if is_there(file, FilePath.is_file) and not _is_behind_code(file, folder, below):
                yield file
    packages = below(folder)
    if len(packages) == 1 and is_there(file := _in_package(packages[0], config), FilePath.is_file):
        yield file


def _commit_asked_for(folder: str, checked_out: "tuple[CheckedOut, ...]") -> "RequiredRelease | None":
    asked = commit_asked_for(RELEASES.trainer, folder, checked_out)
    if asked is None:
        return None
    from tuner.trainers.verl.required_release import RequiredRelease  # few launches ask for a commit

    file, one = asked
    return RequiredRelease(file=FilePath(file), tag=None, commit=one.commit, day=one.day)


def _is_behind_code(file: FilePath, folder: FilePath, below: PackagesBelow) -> bool:
    """Whether a configuration lies as verl's does, but without verl's code, which lies elsewhere.

    Python runs the package that has the code, and Hydra takes the configurations beside its programs.
    """
    if file.parts[-4:-1] != PACKAGED or is_package(file.parent.parent.parent):
        return False
    return bool(below(folder))


def _in_package(package: FilePath, config: str) -> FilePath:
    return package / "trainer" / "config" / f"{file_of(config)[0]}.yaml"


def _is_said_missing(folder: str, launch: tuple[str, ...], package: str) -> bool:
    from tuner.trainers.verl.package_pins import is_named

    if not is_named(folder, launch, package.partition("-")[0]):
        return False
    from tuner.trainers.verl.missing_package import said_missing  # few launches speak of it

    return said_missing(folder, launch, package)
