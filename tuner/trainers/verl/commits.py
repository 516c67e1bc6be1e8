"""Where a commit of verl lies among its releases: a file has the first digits of each, by the tags around it.

``commits.txt`` has a line for each pair of neighbouring releases, with the commits of the main branch behind
the one and up to the other, oldest first, and a line for each release alone, with the commit of its tag and
the one at which its branch leaves the main one.

Source: github.com/verl-project/verl, ``git rev-list --reverse --topo-order`` between the merge bases of the
tags, at commit 1dda039 of 2026-08-22; dates of the tags.
"""

from functools import cache
from pathlib import Path

from msgspec import Struct

from tuner.trainers.verl.releases import BUNDLED

_DIGITS = 8  # of a commit in the file
_FEWEST = 7  # with which one is told
_NONE = "-"
#: The days of the tags, of 0.9.1 of its wheel.
_DAYS = {
    "0.3.0.post1": "2025-04-03",
    "0.4.0": "2025-06-06",
    "0.4.1": "2025-06-26",
    "0.5.0": "2025-07-23",
    "0.6.0": "2025-10-15",
    "0.6.1": "2025-11-14",
    "0.7.0": "2026-01-05",
    "0.7.1": "2026-03-16",
    "0.8.0": "2026-06-01",
    "0.9.0": "2026-08-14",
    "0.9.1": "2026-09-20",
}


class CommitPlace(Struct, frozen=True, kw_only=True):
    """The releases that a commit lies between; both are the same of a release's own."""

    before: str  # empty of one before the oldest bundled release
    after: str  # empty of one behind the newest
    nearest: str

    @property
    def is_release(self) -> bool:
        """Whether it is the commit of a release."""
        return self.before == self.after

    @property
    def plausible(self) -> tuple[str, ...]:
        """The bundled releases that it may be like, oldest first."""
        return tuple(dict.fromkeys(one for one in (self.before, self.after) if one))


def place_of_commit(commit: str) -> CommitPlace | None:
    """Where a commit lies; None of one that verl's main branch does not have.

    Args:
        commit: its first digits at least.
    """
    digits = commit.lower()[:_DIGITS]
    if len(digits) < _FEWEST:
        return None
    places = [place for line in reversed(_lines()) if (place := _in_line(line, digits)) is not None]
    return places[0] if places else None


def place_of_day(day: str) -> CommitPlace:
    """Where the commits of a day lie.

    Args:
        day: as ``2025-06-30``.
    """
    older = [version for version in BUNDLED if _DAYS[version] <= day]
    newer = [version for version in BUNDLED if _DAYS[version] > day]
    before, after = older[-1] if older else "", newer[0] if newer else ""
    return CommitPlace(before=before, after=after, nearest=before or after)


def _in_line(line: tuple[str, str, str], digits: str) -> CommitPlace | None:
    before, after, commits = line
    starts = range(0, len(commits), _DIGITS)
    at = next((start for start in starts if commits.startswith(digits, start)), None)
    if at is None:
        return None
    first_half = 2 * at < len(commits)
    nearest = (before if first_half else after) or before or after
    return CommitPlace(before=before, after=after, nearest=nearest)


@cache
def _lines() -> tuple[tuple[str, str, str], ...]:
    text = Path(__file__).with_name("commits.txt").read_text(encoding="ascii")
    parts = (line.replace(_NONE, "").split(" ") for line in text.splitlines())
    return tuple((before, after or _newest_after(before), commits) for before, after, commits in parts)


def _newest_after(before: str) -> str:
    """The release after the last tag of the file, which has been built since."""
    later = BUNDLED[BUNDLED.index(before) + 1 :] if before else ()
    return later[0] if later else ""
