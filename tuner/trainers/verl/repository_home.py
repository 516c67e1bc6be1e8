"""Where verl's repository is said to be, which tells when that was written: it moved in January 2026.

Who names the new place came after that, and runs a release that there was by then, or a later one.
Source: verl 0.7.1, METADATA of its wheel: ``[2026/01] verl has been migrated to the verl-project``.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from tuner.errors import InputError
from tuner.files import files_like, is_there, read_bytes
from tuner.trainers.verl.trainer_code.requirements import VersionRange
from tuner.units import MIB

_NEWEST_THEN = "0.7.0"  # of the releases when it moved
_TEXTS = (".gitmodules", "README*", "requirements*.txt", "*setup*.sh", "scripts/*setup*.sh", "docs/*.md")
_NEW = re.compile(rb"github\.com[/:]verl-project/verl(?:\.git)?(?![-\w]|/(?:issues|pull)/)")


def since_the_move(around: Iterable[Path]) -> VersionRange | None:
    """The newest release when the repository moved, and later ones, where a text names its new place.

    Args:
        around: folders of a repository, the nearest first.
    """
    for folder in around:
        for file in (file for names in _TEXTS for file in files_like(folder, names)):
            if _names_it(file):
                return VersionRange(
                    oldest=_NEWEST_THEN, text=f">={_NEWEST_THEN}", file=f"{folder.name}/{file.name}"
                )
    return None


def _names_it(file: Path) -> bool:
    try:
        return is_there(file, Path.is_file) and _NEW.search(read_bytes(file, most=MIB)) is not None
    except InputError:
        return False
