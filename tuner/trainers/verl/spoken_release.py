"""The release of verl that a launch, what it names, or the texts around it speak of, in prose too.

Who writes ``verl 0.5.0`` beside a launch has run it there. That says more than versions of other packages,
which go with several releases, and less than the keys of the launch, which Hydra has to know.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from tuner.errors import InputError
from tuner.files import files_like, is_there, read_bytes, repository_folders
from tuner.language import _
from tuner.shown_paths import shown_path
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.verl.releases import BUNDLED
from tuner.units import MIB

_BESIDE = ("*.sh", "*.py")  # of the launch's own folder
_AROUND = ("README*", "*.md", "requirements*.txt", "docs/*.md", "config/*.yaml", "configs/*.yaml")
#: ``verl 0.5.0``, ``verl==0.8.x``, ``**verl** v0.9``; what is compared or left open names no release.
#: What may not stand before the name is looked at behind its first letter: that leaves few places to look at.
_SPOKEN = re.compile(
    r"v(?<![\w/.@-].)erl[`*_\"')]{0,3}\s?(?:version\s|release\s)?(?:[=~]=\s?|:\s?)?[`*_\"'(]{0,3}"
    r"v?(?P<version>\d+\.\d+(?:\.\d+(?:\.post\d+)?)?)(?:\.[x*])?(?![\w+]|\.\w|\s?(?:or|and)\s(?:newer|later|above))",
    re.IGNORECASE,
)
#: What a page shows is not said by it: an answer of a program may speak of any release.
_SHOWN = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1", re.MULTILINE | re.DOTALL)
#: Stands before a release that something is told apart from.
_OTHERWISE = re.compile(
    r"\b(?:since|before|after|until|from|than|unlike|not|no|older|newer|old|upstream|to|vs\.?)\s+$", re.I
)


def spoken_release(named: Iterable[Path], folder: str, among: Collection[str]) -> ReleaseChoice | None:
    """The releases that the first text speaks of which speaks of no others; None where none does.

    A launch that is typed lies beside nothing: what is around is the folder that somebody happens to be in.

    Args:
        named: files that the launch consists of, or names: before those around it.
        folder: in which the launch lies; empty where nobody says.
        among: the releases that it may be of by harder evidence.
    """
    own = [file for file in named if is_there(file, Path.is_file)]
    for file in (*own, *_texts_around(folder)) if own else ():
        versions, releases = _spoken_in(file)
        left = tuple(release for release in BUNDLED if release in releases and release in among)
        if left:
            reason = _("{file} speaks of verl {version}").format(
                file=shown_path(str(file)), version=versions[-1]
            )
            return ReleaseChoice(version=left[-1], reason=reason, plausible=left if len(left) > 1 else ())
    return None


def _texts_around(folder: str) -> Iterator[Path]:
    """The texts beside a launch, then those of its repository, the nearest folder first."""
    if not folder:
        return
    here = Path(folder).absolute()
    yield from (file for names in _BESIDE for file in files_like(here, names))
    for above in repository_folders(here):
        yield from dict.fromkeys(file for names in _AROUND for file in files_like(above, names))


def _spoken_in(file: Path) -> tuple[list[str], set[str]]:
    """What a text calls the release, and the bundled ones that this is; none where it speaks of several."""
    try:
        text = read_bytes(file, most=MIB).decode("utf-8", "replace") if is_there(file, Path.is_file) else ""
    except InputError:
        return [], set()
    text = _SHOWN.sub("", text) if file.suffix == ".md" else text
    versions = [
        match["version"]
        for match in _SPOKEN.finditer(text)
        if _OTHERWISE.search(text, max(0, match.start() - 12), match.start()) is None
    ]
    families = [
        {release for release in BUNDLED if f"{release}.".startswith(f"{version}.")} for version in versions
    ]
    return versions, set.intersection(*families) if families else set()
