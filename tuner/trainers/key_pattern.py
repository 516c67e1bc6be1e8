"""Patterns that stand for several keys.

``*`` stands for the rest of a name, ``**`` for any number of names, none among them, and ``{a,b}`` for
either name. As a shell's do not stand for hidden files, they do not for names such as ``_target_``.
Releases may follow as in :mod:`tuner.trainers.key_table`: ``"data.seed >=0.6.0"``.
"""

from functools import cache, lru_cache

from msgspec import Struct

from tuner.inputs.tree import Path, split_key
from tuner.trainers.key_table import Reaches, Spelling, spelling
from tuner.versions import at_least


class Pattern(Struct, frozen=True, kw_only=True):
    """A pattern, read."""

    names: tuple[frozenset[str], ...]  # the alternatives of each name
    releases: Spelling
    first: frozenset[str] | None  # what a key has to begin with, where that is no pattern itself
    last: frozenset[str] | None  # what it has to end with, likewise

    def matches(self, key: str, version: str, reaches: Reaches = at_least) -> bool:
        """Whether a release knows the key under this pattern."""
        return self.releases.holds(version, reaches) and _match(self.names, split_key(key))


@cache
def pattern(text: str) -> Pattern:
    """Read a pattern."""
    releases = spelling(text)
    names = tuple(frozenset(name.strip("{}").split(",")) for name in releases.key.split("."))
    return Pattern(names=names, releases=releases, first=_plain(names[0]), last=_plain(names[-1]))


def _plain(alternatives: frozenset[str]) -> frozenset[str] | None:
    return None if any("*" in name for name in alternatives) else alternatives


@lru_cache(maxsize=1 << 12)  # many configurations set the same keys
def covered(patterns: tuple[str, ...], key: str, version: str, reaches: Reaches = at_least) -> bool:
    """Whether a release knows the key under one of some patterns."""
    path = split_key(key) or ("",)
    begins, ends = path[0], path[-1]
    for read in map(pattern, patterns):  # most begin or end otherwise, and are many
        if (read.first is not None and begins not in read.first) or (
            read.last is not None and ends not in read.last
        ):
            continue
        if read.matches(key, version, reaches):
            return True
    return False


def _match(names: tuple[frozenset[str], ...], path: Path) -> bool:
    if not names:
        return not path
    if "**" in names[0]:
        shown = next((start for start, name in enumerate(path) if _hidden(name)), len(path))
        return any(_match(names[1:], path[start:]) for start in range(shown + 1))
    return bool(path) and _stands_for(names[0], path[0]) and _match(names[1:], path[1:])


def _stands_for(alternatives: frozenset[str], name: str) -> bool:
    if name in alternatives:
        return True
    return not _hidden(name) and any(
        name.startswith(alternative[:-1]) for alternative in alternatives if alternative.endswith("*")
    )


def _hidden(name: str) -> bool:
    return name.startswith("_")
