"""The release of verl that a recipe is written for, as the file ``REQUIRED_VERL.txt`` beside it says.

A project may have the same in ``VERL_PIN.txt``: ``commit: ...``.

Source: github.com/verl-project/verl-recipe at commit 48ea0a7 of 2026-08-05: lines ``KEY=value``, with ``TAG``
of a release, or ``COMMIT``, ``VERL_COMMIT``, ``REPRODUCTION_COMMIT`` and the like of a commit.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from tuner.errors import InputError
from tuner.files import is_there, read_bytes
from tuner.language import _
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.verl.releases import RELEASES
from tuner.units import KIB
from tuner.versions import is_version

if TYPE_CHECKING:
    from tuner.trainers.verl.commits import CommitPlace

_NAMES = ("REQUIRED_VERL.txt", "VERL_PIN.txt")
_FOLDERS_UP = 2  # a program may lie in a folder of its recipe
#: A commit of the recipe itself says nothing of verl.
_LINE = re.compile(r"^(TAG|(?!\w*RECIPE)(?:[A-Z]+_)*COMMIT)(?:=|:[ \t]*)([\w.+-]{1,64})\s*$", re.M | re.I)


class RequiredRelease(Struct, frozen=True, kw_only=True):
    """What such a file asks for: the tag of a release, a commit, or both."""

    file: Path
    tag: str | None
    commit: str | None

    day: str = ""  # of the commit, where that is said

    @property
    def choice(self) -> ReleaseChoice | None:
        """The bundled release that stands for it; a guess of a commit, and None where nobody knows it."""
        if self.tag is not None:
            reason = _("{file} asks for {tag}").format(file=self.file, tag=self.tag)
            return RELEASES.nearest(self.tag, reason)
        if self.commit is None or self._place is None:
            return None
        place, reason = self._place, self.commit_named
        if place.is_release:
            return ReleaseChoice(version=place.nearest, reason=reason)
        return ReleaseChoice(
            version=place.nearest, reason=reason, plausible=place.plausible, older=not place.before
        )

    @property
    def commit_named(self) -> str:
        """What asks for which commit; empty where none is asked for."""
        if self.commit is None:
            return ""
        text = _("{file} asks for the commit {commit} of verl")
        return text.format(file=self.file, commit=self.commit[:10])

    @property
    def unknown(self) -> str:
        """What is not known of it; empty where a release is."""
        if self.tag is not None or self.commit is None:
            return ""
        place, text = self._place, ""
        if place is None:
            text = _("{file} asks for the commit {commit} of verl, of which no release is known")
            return text.format(file=self.file, commit=self.commit[:10])
        if place.is_release:
            return ""
        text = _("{file} asks for the commit {commit} of verl, which lies between {before} and {after}")
        if not (place.before and place.after):
            text = _(
                "{file} asks for the commit {commit} of verl, which is near {before}{after} and no release"
            )
        return text.format(file=self.file, commit=self.commit[:10], before=place.before, after=place.after)

    @property
    def _place(self) -> "CommitPlace | None":
        from tuner.trainers.verl.commits import place_of_commit, place_of_day  # few launches name one

        place = place_of_commit(self.commit or "")
        return place_of_day(self.day) if place is None and self.day else place


def required_release(folders: Iterable[Path]) -> RequiredRelease | None:
    """What the first such file asks for, in one of these folders or not far above; None without one."""
    for folder in folders:
        for above in (folder, *list(folder.parents)[:_FOLDERS_UP]):
            for name in _NAMES:
                if is_there(above / name, Path.is_file):
                    return _read(above / name)
    return None


def _read(file: Path) -> RequiredRelease | None:
    try:
        text = read_bytes(file, most=KIB * 16).decode(errors="replace")
    except InputError:
        return None
    named = {key.upper(): value for key, value in _LINE.findall(text)}
    tag = named.get("TAG")
    return RequiredRelease(
        file=file,
        tag=tag if tag is not None and is_version(tag.removeprefix("v")) else None,
        commit=next((commit for key, commit in named.items() if key != "TAG"), None),
    )
