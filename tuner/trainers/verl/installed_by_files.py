"""Whether the files around a launch install a package: by a command of pip, or by requirements that it reads.

Requirements that no command of a README, an install script or an image reads are not known to be installed.
"""

import re
from pathlib import Path

from tuner.errors import InputError
from tuner.files import is_there, read_bytes, repository_folders
from tuner.units import MIB

_TOLD_IN = (
    "README*",
    "Dockerfile*",
    "*install*.sh",
    "*setup*.sh",
    "scripts/*install*.sh",
    "scripts/*setup*.sh",
)
_COMMAND = re.compile(r"\bpip3?\s+install\b((?:\\\r?\n|[^\n#&;|`])*)")
_READS = re.compile(r"(?:-r|--requirement)[\s=]+([\w./-]+)")


def installs(folder: str, package: str) -> bool:
    """Whether a file around a launch says to install a package.

    Args:
        folder: in which the launch lies.
        package: as it is installed, such as ``liger-kernel``.
    """
    around = repository_folders(Path(folder).absolute())
    return any(_told(above, file, package) for above in around for file in _files(above))


def _files(folder: Path) -> list[Path]:
    return [file for names in _TOLD_IN for file in sorted(folder.glob(names))]


def _told(folder: Path, file: Path, package: str) -> bool:
    """Whether a command of a file names a package, or requirements of its folder that do."""
    named = re.compile(rf"(?m)(?:^|[\s\"'])({re.escape(package)})(?![\w.-])")
    required = re.compile(rf"(?m)^\s*{re.escape(package)}(?![\w-])")
    for command in _COMMAND.finditer(_text(file)):
        if named.search(command[1]):
            return True
        if any(required.search(_text(folder / name)) for name in _READS.findall(command[1])):
            return True
    return False


def _text(file: Path) -> str:
    try:
        return read_bytes(file, most=MIB).decode("utf-8", "replace") if is_there(file, Path.is_file) else ""
    except InputError:
        return ""
