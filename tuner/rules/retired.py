"""Rules and checks that are gone, whose codes and names are never used again."""

from msgspec import Struct


class Retired(Struct, frozen=True, kw_only=True):
    """A rule that is gone, for who still names it in settings, comments or notes."""

    code: str
    name: str
    since: str  # the release of tuner that is without it
    instead: str = ""  # the code of the rule that took its place; empty where none did


RETIRED: tuple[Retired, ...] = ()
