"""The release of verl that a launch, what it names, or the texts around it speak of, in prose too.

Who writes ``verl 0.5.0`` beside a launch has run it there. That says more than versions of other packages,
which go with several releases, and less than the keys of the launch, which Hydra has to know.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from tuner.errors import InputError
from tuner.files import files_like, is_there, read_bytes, repository_folders
from tuner.language import _
from tuner.shown_paths import shown_path
from tuner.trainers.bundled_releases import ReleaseChoice
from tuner.trainers.verl.releases import BUNDLED
from tuner.units import MIB

_BESIDE = ("*.sh", "*.py")  # of the launch's own folder
_AROUND = (
    *("README*", "*.md", "requirements*.txt", "docs/*.md", "config/*.yaml", "configs/*.yaml", "src/*.py"),
    *("*install*.sh", "scripts/*install*.sh"),
)
#: ``verl 0.5.0``, ``verl==0.8.x``, ``**verl** v0.9``, ``verl version: v0.7.1``; what is compared or left open
#: names no release. Behind a thing of verl's it stands in brackets: ``verl interaction interface (v0.5.0)``.
#: ``0.8.0.dev0`` is what became 0.8.0, whose checks hold of a copy that says so as well.
#: What may not stand before the name is looked at behind its first letter: that leaves few places to look at.
_SPOKEN = re.compile(
    r"v(?<![\w/.@-].)erl[`*_\"')]{0,3}(?:\s?(?:(?:version|release)\b\s?)?(?:[=~]=\s?|:\s?)?[`*_\"'(]{0,3}"
    r"|(?:\s(?:agent|api|code|dataset|framework|interaction|interface|loop|reward|tool|trainer|training)s?){1,3}\s\()"
    r"v?(?P<version>\d+\.\d+(?:\.\d+(?:\.post\d+)?)?)(?:\.[x*]|(?P<dev>\.dev\d*))?(?![\w+]|\.\w|\s?(?:or|and)\s(?:newer|later|above))",
    re.IGNORECASE | re.ASCII,
)
#: A link into the tree of a release, and the name of its archive: ``verl/blob/v0.5.0/``, ``verl-0.5.0``.
_LINKED = re.compile(
    r"(?:(?:https?://)?github\.com/(?:volcengine|verl-project)/verl/(?:blob|tree)/v|(?<![\w/.@-])verl-v?)"
    r"(?P<version>\d+\.\d+\.\d+(?:\.post\d+)?)(?![\w+]|\.\w)"
)
#: What a page shows is not said by it: an answer of a program may speak of any release.
_SHOWN = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1", re.MULTILINE | re.DOTALL)
#: Stands before a release that something is told apart from.
_OTHERWISE = re.compile(
    r"\b(?:since|before|after|until|from|than|unlike|not|no|older|newer|old|upstream|to|vs\.?)\s+$", re.I
)
#: Stands before a release that something is not for: ``not intended for``, ``does not work with``.
_NOT_FOR = re.compile(
    r"(?:\bnot|\bnever|n't)\s+(?:\w+\s+){0,3}(?:for|with|on|under|support|against)\s+(?:[`*_\"']{1,3})?$",
    re.I,
)
_BEFORE = 48  # characters that are looked at


def spoken_release(named: Iterable[Path], folder: str, among: Collection[str]) -> ReleaseChoice | None:
    """The releases that the first text speaks of which speaks of no others; None where none does.

    A launch that is typed lies beside nothing: what is around is the folder that somebody happens to be in.

    Args:
        named: files that the launch consists of, or names: before those around it.
        folder: in which the launch lies; empty where nobody says.
        among: the releases that it may be of by harder evidence.
    """
    own = [file for file in named if is_there(file, Path.is_file)]
    without, refusing = set[str](), ""
    for file in (*own, *_texts_around(folder)) if own else ():
        spoken = _spoken_in(file)
        name = shown_path(str(file))
        left = tuple(one for one in BUNDLED if one in spoken.releases and one in among and one not in without)
        if left:
            reason = _("{file} speaks of verl {version}").format(file=name, version=spoken.versions[-1])
            return ReleaseChoice(version=left[-1], reason=reason, plausible=left if len(left) > 1 else ())
        if not spoken.without.issubset(without):
            without |= spoken.without
            refusing = _("the newest that {file} does not exclude").format(file=name)
    rest = tuple(one for one in BUNDLED if one in among and one not in without)
    if not without.intersection(among) or not rest:
        return None
    return ReleaseChoice(version=rest[-1], reason=refusing, plausible=rest)


class _Spoken(Struct, frozen=True, kw_only=True):
    """What a text says of releases."""

    versions: tuple[str, ...] = ()  # as it calls them
    releases: frozenset[str] = frozenset()  # the bundled ones that this is; none where it speaks of several
    without: frozenset[str] = frozenset()  # that it says it is not for


def _texts_around(folder: str) -> Iterator[Path]:
    """The texts beside a launch, then those of its repository, the nearest folder first."""
    if not folder:
        return
    here = Path(folder).absolute()
    yield from (file for names in _BESIDE for file in files_like(here, names))
    for above in repository_folders(here):
        yield from dict.fromkeys(file for names in _AROUND for file in files_like(above, names))


def _spoken_in(file: Path) -> _Spoken:
    """What a text says; nothing of one that cannot be read."""
    try:
        text = read_bytes(file, most=MIB).decode("utf-8", "replace") if is_there(file, Path.is_file) else ""
    except InputError:
        return _Spoken()
    text = _LINKED.sub(r"(verl \g<version>", text)  # what is adapted from a release runs with it
    text = _SHOWN.sub("", text) if file.suffix == ".md" else text
    versions, between, without = list[str](), list[str](), set[str]()
    for match in _SPOKEN.finditer(text):
        start = match.start()
        before = text[max(0, start - _BEFORE) : start].rpartition("\n")[2]
        if _NOT_FOR.search(before) is not None:
            without |= _family(match["version"])
        elif _OTHERWISE.search(text, max(0, start - 12), start) is None:
            (between if match["dev"] else versions).append(match["version"])
    versions = versions or between  # beside a release, what came before another is spoken of in passing
    families = [_family(version) for version in versions]
    releases = set.intersection(*families) if families else set[str]()
    return _Spoken(
        versions=tuple(versions), releases=frozenset(releases - without), without=frozenset(without)
    )


def _family(version: str) -> set[str]:
    """The bundled releases that a version may mean: ``0.9`` means those of the series."""
    return {release for release in BUNDLED if f"{release}.".startswith(f"{version}.")}
