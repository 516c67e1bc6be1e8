"""A range of releases, so that every check states its own in one place."""

from msgspec import Struct

from tuner.trainers.verl.releases import reaches


class Releases(Struct, frozen=True, kw_only=True):
    """``since`` inclusive, ``until`` exclusive; None is open."""

    since: str | None = None
    until: str | None = None

    def __contains__(self, version: str) -> bool:
        return (self.since is None or reaches(version, self.since)) and (
            self.until is None or not reaches(version, self.until)
        )
