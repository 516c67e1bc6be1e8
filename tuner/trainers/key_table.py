"""Tables of a trainer's keys: what is meant, and how each release spells it.

A meaning such as ``actor.fsdp.param_offload`` maps to the key that a release *reads*. A key that stands in a
release's schema without being read is not in the table for that release. Behind a key stand the releases that
read it: ``>=`` the first one, ``<`` the first one that no longer does.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from tuner.versions import at_least

Reaches = Callable[[str, str], bool]
"""Whether a release is at a bound or after it."""


class Spelling(Struct, frozen=True, kw_only=True):
    """A key and the releases that read it: ``since`` inclusive, ``until`` exclusive, None is open."""

    key: str
    since: str | None = None
    until: str | None = None

    def holds(self, version: str, reaches: Reaches = at_least) -> bool:
        """Whether this release reads the key."""
        return (self.since is None or reaches(version, self.since)) and (
            self.until is None or not reaches(version, self.until)
        )

    def below(self, section: "Spelling") -> "Spelling":
        """The key within a section, read where the release has both."""
        since = self.since
        if since is None or (section.since is not None and at_least(section.since, since)):
            since = section.since
        return Spelling(key=f"{section.key}.{self.key}", since=since, until=self.until or section.until)


def spelling(text: str) -> Spelling:
    """A key with the bounds behind it: ``"a.b >=0.6.0 <0.9.0"``."""
    key, *bounds = text.split()
    since = next((bound[2:] for bound in bounds if bound.startswith(">=")), None)
    until = next((bound[1:] for bound in bounds if bound.startswith("<")), None)
    return Spelling(key=key, since=since, until=until)


Names = Mapping[str, str | tuple[str, ...]]
Keys = Mapping[str, tuple[Spelling, ...]]


def keys_by_meaning(names: Names) -> Keys:
    """Keys by meaning; those that moved between releases are several."""
    return {
        meaning: tuple(map(spelling, (keys,) if isinstance(keys, str) else keys))
        for meaning, keys in names.items()
    }


def within(section: str, names: Names) -> Keys:
    """Keys of one section, by meaning."""
    above = Spelling(key=section)
    return {
        meaning: tuple(own.below(above) for own in keys) for meaning, keys in keys_by_meaning(names).items()
    }


def in_sections(meaning: str, sections: Iterable[str], leaves: Iterable[str]) -> Keys:
    """Keys of a section that keep their names while the section moves."""
    above = [spelling(section) for section in sections]
    return {
        f"{meaning}.{own.key}": tuple(own.below(section) for section in above)
        for own in map(spelling, leaves)
    }


class KeyTable:
    """The keys of one program of a trainer, by meaning.

    Args:
        keys: the keys, each with the releases that read it.
        meanings: everything that may be asked for; the program may lack keys for some of it.
        reaches: how the trainer's releases follow one another.

    ``key(meaning, version)`` is the key that a release reads for a meaning, None where it has no such switch;
    it raises KeyError where nobody knows the meaning.
    """

    def __init__(self, keys: Keys, meanings: Iterable[str] = (), reaches: Reaches = at_least) -> None:
        self.keys = keys
        self._meanings = frozenset(meanings).union(keys)
        self._reaches = reaches
        self.key = lru_cache(maxsize=4096)(self._key)  # asked for again with every proposal

    def _key(self, meaning: str, version: str) -> str | None:
        if meaning not in self._meanings:
            raise KeyError(meaning)
        spellings = self.keys.get(meaning, ())
        return next((own.key for own in spellings if own.holds(version, self._reaches)), None)
