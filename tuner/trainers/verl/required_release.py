"""The release of verl that a recipe is written for, as the file ``REQUIRED_VERL.txt`` beside it says.

Source: github.com/verl-project/verl-recipe at commit 48ea0a7 of 2026-08-05: lines ``KEY=value``, with ``TAG``
of a release, or ``COMMIT``, ``VERL_COMMIT``, ``REPRODUCTION_COMMIT`` and the like of a commit.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from tuner.errors import InputError
from tuner.files import is_there, read_bytes
from tuner.language import _
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.verl.releases import RELEASES
from tuner.units import KIB
from tuner.versions import is_version

_NAME = "REQUIRED_VERL.txt"
_FOLDERS_UP = 2  # a program may lie in a folder of its recipe
#: A commit of the recipe itself says nothing of verl.
_LINE = re.compile(r"^(TAG|(?!\w*RECIPE)(?:[A-Z]+_)*COMMIT)=([\w.+-]{1,64})\s*$", re.MULTILINE)


class RequiredRelease(Struct, frozen=True, kw_only=True):
    """What such a file asks for: the tag of a release, a commit, or both."""

    file: Path
    tag: str | None
    commit: str | None

    @property
    def choice(self) -> ReleaseChoice | None:
        """The bundled release that stands for the tag; None of a commit, whose release nobody knows."""
        if self.tag is None:
            return None
        reason = _("{file} asks for {tag}").format(file=self.file, tag=self.tag)
        return RELEASES.nearest(self.tag, reason)

    @property
    def unknown(self) -> str:
        """What is not known of it; empty where a release is."""
        if self.tag is not None or self.commit is None:
            return ""
        return _("{file} asks for the commit {commit} of verl, of which no release is known").format(
            file=self.file, commit=self.commit[:10]
        )


def required_release(folders: Iterable[Path]) -> RequiredRelease | None:
    """What the first such file asks for, in one of these folders or not far above; None without one."""
    for folder in folders:
        for above in (folder, *list(folder.parents)[:_FOLDERS_UP]):
            if is_there(above / _NAME, Path.is_file):
                return _read(above / _NAME)
    return None


def _read(file: Path) -> RequiredRelease | None:
    try:
        text = read_bytes(file, most=KIB * 16).decode(errors="replace")
    except InputError:
        return None
    named = dict(_LINE.findall(text))
    tag = named.get("TAG")
    return RequiredRelease(
        file=file,
        tag=tag if tag is not None and is_version(tag.removeprefix("v")) else None,
        commit=next((commit for key, commit in named.items() if key != "TAG"), None),
    )
