"""The copy of verl that knows the keys of a launch, where the one that lies nearest does not.

Hydra refuses a key that the configuration lacks. So a launch that sets such keys was written for another copy
or release, if one has them: Python may import that one, or nobody knows which of them runs.
"""

from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tuner.errors import Location
from tuner.files import is_there, repository_folders
from tuner.inputs.tree import Path, contains, dotted
from tuner.inputs.user_input import MissingConfiguration
from tuner.language import _
from tuner.shown_paths import shown_path
from tuner.trainers.verl.private_copy import PrivateDefaults
from tuner.trainers.verl.releases import BUNDLED, RELEASES
from tuner.trainers.verl.schema import releases_with

if TYPE_CHECKING:
    from tuner.trainers.verl.user_configuration import UserConfiguration

_NAME = "verl"
_NAMED = 3  # keys in one message


def with_copy_by_keys(configuration: "UserConfiguration", *, launched_in: str) -> "UserConfiguration":
    """The configuration on the copy that has its keys; in doubt where that may not be the one that runs.

    Args:
        configuration: on the copy that lies nearest, where neither the user nor the launch says which runs.
        launched_in: the folder that the launch lies in.
    """
    keys = configuration.required_keys
    if not keys:
        return configuration
    nearest = configuration.copy.nearest(BUNDLED[-1])
    candidates = configuration.copy.undecided(BUNDLED[-1]) if nearest is None else ()
    if candidates:
        having = [copy for copy in candidates if not _lacked(copy, keys)]
        return _on(configuration, having[0]) if having and _same(having) else configuration
    lacked = () if nearest is None else _lacked(nearest, keys)
    if nearest is None or not lacked:
        return configuration
    others = [(copy, _lacked(copy, keys)) for copy in configuration.copy.further_copies(BUNDLED[-1], nearest)]
    likely = [(copy, missing) for copy, missing in others if _is_as_likely(missing, lacked)]
    beside = _is_beside(nearest, launched_in)
    better = [copy for copy, missing in likely if set(missing) < set(lacked)]
    importable = [] if beside else [copy for copy in better if copy.package.name == _NAME]
    if importable and _same(importable):
        return _on(configuration, importable[0])
    named = _(", ").join(shown_path(str(copy.package)) for copy, _missing in likely)
    if not likely and not beside:
        named = _of_releases(lacked, configuration.configs)
    return replace(configuration, doubt=_doubt(nearest, lacked, named)) if named else configuration


def _is_as_likely(missing: Sequence[Path], lacked: Sequence[Path]) -> bool:
    """Whether a copy has some of the keys that the nearest lacks, and does not itself lack more."""
    return len(missing) <= len(lacked) and not set(missing) >= set(lacked)


def _on(configuration: "UserConfiguration", copy: PrivateDefaults) -> "UserConfiguration":
    return replace(configuration, folder=str(copy.file.parent))


def _lacked(copy: PrivateDefaults, keys: Sequence[Path]) -> tuple[Path, ...]:
    """The keys that a copy does not have."""
    return tuple(key for key in keys if not contains(copy.tree, key))


def _same(copies: Sequence[PrivateDefaults]) -> bool:
    return all(copy.tree == copies[0].tree for copy in copies)


def _is_beside(copy: PrivateDefaults, folder: str) -> bool:
    """Whether Python imports a copy before any other where a launch is started beside it or above itself."""
    regular = is_there(copy.package / "__init__.py", FilePath.is_file)
    return regular and copy.package.parent in repository_folders(FilePath(folder).absolute())


def _of_releases(lacked: Sequence[Path], configs: tuple[str, ...]) -> str:
    """The releases that have all of these keys; empty where none has."""
    having = [set(releases_with(key, configs)) for key in lacked]
    versions = [version for version in BUNDLED if all(version in one for one in having)]
    return f"{RELEASES.trainer} {_(', ').join(versions)}" if versions else ""


def _doubt(copy: PrivateDefaults, lacked: Sequence[Path], others: str) -> MissingConfiguration:
    """What is said where nobody knows which one runs."""
    named = _(", ").join(map(dotted, lacked[:_NAMED]))
    if len(lacked) > _NAMED:
        named = _("{names} and {further} more").format(names=named, further=len(lacked) - _NAMED)
    reason = _("{copy} does not have {keys}, and {others} does: nothing says which of them the launch runs")
    return MissingConfiguration(
        name="",
        looked_in=(),
        reason=reason.format(copy=shown_path(str(copy.package)), keys=named, others=others),
        location=Location(source=str(copy.file)),
    )
