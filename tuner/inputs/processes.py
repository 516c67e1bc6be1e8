"""How many processes a launch starts, as torchrun's options say."""

from msgspec import Struct

from tuner.errors import Location


class Count(Struct, frozen=True, kw_only=True):
    """One number, and how and where it was given."""

    value: int
    text: str  # "torchrun --nproc_per_node=8"
    location: Location


class Processes(Struct, frozen=True, kw_only=True):
    """The processes of a launch; None where it does not say."""

    per_node: Count | None = None
    nodes: Count | None = None
