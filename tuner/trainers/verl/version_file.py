"""The version of a copy of verl, as the file in its package says that holds nothing else."""

import re
from pathlib import Path

from tuner.errors import InputError
from tuner.files import read_bytes
from tuner.units import KIB

PLACE = "version/version"
_VERSION = re.compile(r"\d[\w.+-]{0,40}")


def told_version(package: Path) -> str:
    """What the version file of a package says; empty where it has none.

    Args:
        package: the folder of the package.
    """
    try:
        text = read_bytes(package / PLACE, most=KIB)
    except InputError:
        return ""
    version = text.decode(errors="replace").strip()
    return version if _VERSION.fullmatch(version) else ""
