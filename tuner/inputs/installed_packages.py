"""The packages that a text says how to install, with their versions: ``pip install vllm==0.7.3``."""

import re
from collections.abc import Iterator

from msgspec import Struct

from tuner.errors import Location
from tuner.inputs.checked_out import checked_out

_COMMAND = re.compile(r"\bpip3?\s+install\b(?P<words>(?:\\\r?\n|[^\n#])*)")
_PINNED = re.compile(r"(?<![\w.-])([A-Za-z][\w.-]*)(?:\[[\w,\s-]*\])?==v?(\d+(?:\.\d+)*(?:[.-]?post\d+)?)")


class InstalledPackage(Struct, frozen=True, kw_only=True):
    """A package in one version, and where somebody has it installed."""

    name: str  # as it is installed, such as ``vllm``
    version: str
    location: Location


def installed_packages(text: str, source: str) -> Iterator[InstalledPackage]:
    """What commands of pip and git name with one version, comments among them: those were run once.

    Args:
        text: of a script or of another file.
        source: names it.
    """
    for command in _COMMAND.finditer(text):
        for pinned in _PINNED.finditer(command["words"]):
            line = text.count("\n", 0, command.start("words") + pinned.start()) + 1
            yield InstalledPackage(
                name=pinned[1], version=pinned[2], location=Location(source=source, line=line)
            )
    for one in checked_out(text, source) if "git" in text else ():
        if one.version:
            yield InstalledPackage(name=one.name, version=one.version, location=one.location)
