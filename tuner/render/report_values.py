"""What the machine-readable reports are made of: structs, published as a JSON Schema.

Bytes are whole numbers, times are seconds, places are 1-based. ``schema_version`` changes its first
number when a field is removed, changes its meaning or may be null where it could not, its second when one
is added.
"""

from typing import Annotated, Literal

from msgspec import Meta

from tuner.advise.verdicts import Condition, Verdict
from tuner.errors import Location
from tuner.render.publication import publish

SchemaVersion = Literal["5.1"]
SCHEMA_VERSION: SchemaVersion = "5.1"

MemoryVerdict = Annotated[
    Verdict, Meta(description="of memory alone, for the job with the least change that starts")
]
MemoryCondition = Annotated[
    Condition | None,
    Meta(description="what a memory_verdict may_not_fit or cannot_say hangs on; null with the others"),
]

publish(Location, "InputPlace", "source", "line", "column", text="A place in the user's input.")
