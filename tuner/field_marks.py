"""What a struct says of its fields to whoever publishes it: what a number counts, and what is not shown.

The descriptions of the published JSON Schemas are these marks; a struct that is published has no other.
"""

from typing import Annotated

from msgspec import Meta

#: Marks a field that the published report leaves out.
UNPUBLISHED = Meta(extra={"published": False})

Bytes = Annotated[int, Meta(description="bytes")]
BytesInterval = Annotated[tuple[int, int], Meta(description="the least and the most bytes")]
Seconds = Annotated[float, Meta(description="seconds, modelled")]
MaybeSeconds = Annotated[float | None, Meta(description="seconds; null where there are none")]
LowSeconds = Annotated[float, Meta(description="the least seconds")]
HighSeconds = Annotated[float, Meta(description="the most seconds")]
RelativeError = Annotated[float, Meta(description="predicted / measured - 1")]
RatesOf = Annotated[str, Meta(description="the card whose measured rates or tables the seconds rest on")]
