"""What a check says of its inputs: findings with their places."""

from msgspec import Struct

from tuner.errors import Location
from tuner.findings import Finding, Severity

_ORDER = {severity: rank for rank, severity in enumerate(Severity)}


class Line(Struct, frozen=True, kw_only=True):
    """A finding with its place in the user's input."""

    location: Location
    finding: Finding
    overrides: tuple[str, ...]

    def at_least(self, severity: Severity) -> bool:
        """Whether the finding is as bad as ``severity`` or worse."""
        return _ORDER[self.finding.severity] <= _ORDER[severity]

    @property
    def rank(self) -> tuple[int, str, int, int, str]:
        """What findings are sorted by: worst first, then in the file's order."""
        place = self.location
        code = self.finding.rule.code
        return (_ORDER[self.finding.severity], place.source, place.line or 0, place.column or 0, code)


def configuration_path(line: Line) -> str:
    """The key that a finding is about, whatever line it stands on; empty where it is about none."""
    named = (*line.finding.keys, *(override.lstrip("+~").partition("=")[0] for override in line.overrides))
    return named[0] if named else ""
