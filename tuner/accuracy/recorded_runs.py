"""The peaks of a recorded run beside their predictions, in bytes."""

from typing import Annotated

from msgspec import Meta, Struct

from tuner.field_marks import RelativeError


class RecordedPeak(Struct, frozen=True, kw_only=True):
    """The highest memory of one phase of a run, over all ranks and steps, and its prediction."""

    case: Annotated[str, Meta(description="the run")]
    phase: str
    predicted_bytes: Annotated[int, Meta(description="bytes that PyTorch's allocator hands out at most")]
    predicted_high_bytes: Annotated[int, Meta(description="bytes, with the upper end of every term")]
    measured_bytes: int
    predicted_reserved_bytes: Annotated[
        tuple[int, int], Meta(description="the least and the most bytes that the allocator holds")
    ]
    measured_reserved_bytes: int

    @property
    def error(self) -> RelativeError:
        """The error of the prediction, as a share of what was measured; above 0: predicted too high."""
        return self.predicted_bytes / self.measured_bytes - 1

    @property
    def reserved_inside(self) -> bool:
        """Whether what was reserved lies in the predicted interval."""
        low, high = self.predicted_reserved_bytes
        return low <= self.measured_reserved_bytes <= high
