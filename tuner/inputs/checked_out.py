"""The sources that a text says to check out or to install from a repository, with their version or commit.

``pip install git+https://host/owner/name@v1.2``; ``git clone https://host/owner/name``, then ``cd name`` and
``git checkout v1.2`` or ``git reset --hard COMMIT``.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from tuner.errors import Location

_REF = r"(?:tags/|origin/)?([\w.+-]{1,64})"
_NAME = r"([A-Za-z][\w.-]*?)(?:\.git)?"
_INSTALLED = re.compile(rf"git\+(?:https?|ssh|git)://(?:[\w.-]+@)?[^\s\"'@]*/{_NAME}@{_REF}")
_CLONED = re.compile(
    rf"\bgit\s+clone\b(?P<words>[^\n;&|]*?)(?:https?://|git@)[^\s\"']*?/{_NAME}/?(?=[\s\"';&|)`]|$)"
)
_BRANCH = re.compile(rf"(?:^|\s)(?:-b|--branch)[ =]{_REF}")
_ENTERED = re.compile(r"\b(?:cd|pushd)\s+[\"']?(?:[^\s\"';&|]*/)?([A-Za-z][\w.-]*)/?(?=[\s\"';&|)`]|$)")
_TAKEN = re.compile(rf"\bgit\s+(?:checkout|reset|switch)\s+(?:-{{1,2}}(?!b\b)[\w-]+\s+)*{_REF}")
_VERSION = re.compile(r"v?(\d+(?:\.\d+)+(?:[.-]?post\d+)?)")
_COMMIT = re.compile(r"(?=[0-9a-f]*\d)[0-9a-f]{7,40}")
_DAY = re.compile(r"\b(20\d\d-[01]\d-[0-3]\d)\b")
_LINES = 8  # behind the command that enters a clone, in which it is brought to a commit


class CheckedOut(Struct, frozen=True, kw_only=True):
    """A repository at one version or commit."""

    name: str  # of the repository
    version: str = ""  # of a tag
    commit: str = ""
    day: str = ""  # that stands beside the commit
    location: Location


def checked_out(text: str, source: str) -> Iterator[CheckedOut]:
    """What a text has checked out, in its order; nothing of a branch that goes on.

    Args:
        text: of a script or of another file.
        source: names it.
    """
    for match in _INSTALLED.finditer(text):
        yield from _at(match[1], match[2], match, text, source)
    entered = sorted((*_CLONED.finditer(text), *_ENTERED.finditer(text)), key=lambda match: match.start())
    for number, match in enumerate(entered):
        cloned = match.re is _CLONED
        name = match[2] if cloned else match[1]
        end = entered[number + 1].start() if number + 1 < len(entered) else len(text)
        behind = "\n".join(text[match.end() : end].split("\n")[:_LINES])
        own = _BRANCH.search(match["words"] + " ") or _BRANCH.match(behind) if cloned else None
        taken = _TAKEN.search(text, match.end(), match.end() + len(behind))
        if taken is not None:
            yield from _at(name, taken[1], taken, text, source)
        elif own is not None:
            yield from _at(name, own[1], match, text, source)


def _at(name: str, ref: str, match: re.Match[str], text: str, source: str) -> Iterator[CheckedOut]:
    version, commit = _VERSION.fullmatch(ref), _COMMIT.fullmatch(ref)
    if version is None and commit is None:
        return
    start = text.rfind("\n", 0, match.end()) + 1
    day = _DAY.search(text, start, text.find("\n", match.end()) % (len(text) + 1))
    yield CheckedOut(
        name=name,
        version="" if version is None else version[1],
        commit="" if version is not None else ref,
        day="" if day is None else day[1],
        location=Location(source=source, line=text.count("\n", 0, match.end()) + 1),
    )
