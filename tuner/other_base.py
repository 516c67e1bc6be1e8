"""What a launch needs to rest on another configuration of its trainer."""

from typing import Annotated

from msgspec import Meta, Struct


class OtherBase(Struct, frozen=True, kw_only=True):
    """What a launch needs to rest on another configuration of its trainer than it does."""

    program: str
    options: Annotated[tuple[str, ...], Meta(description="of the program, before its overrides")]
    package: Annotated[str, Meta(description="that has to be installed for it; empty: none")] = ""
    packages: Annotated[tuple[str, ...], Meta(description="all that have to be, that one first")] = ()
