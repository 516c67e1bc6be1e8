"""What the machine-readable reports are made of: structs, published as a JSON Schema.

Bytes are whole numbers, times are seconds, places are 1-based. ``schema_version`` changes its first
number when a field is removed, changes its meaning or may be null where it could not, its second when one
is added.
"""

from typing import Literal

from msgspec import Struct

from tuner.errors import Location

SchemaVersion = Literal["4.2"]
SCHEMA_VERSION: SchemaVersion = "4.2"


class InputPlace(Struct, frozen=True, kw_only=True):
    """A place in the user's input."""

    source: str
    line: int | None
    column: int | None

    @classmethod
    def of(cls, location: Location) -> "InputPlace":
        """A place as it is."""
        return cls(source=location.source, line=location.line, column=location.column)
