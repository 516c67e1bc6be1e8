"""The peaks of a recorded run beside their predictions, in bytes."""

from msgspec import Struct


class RecordedPeak(Struct, frozen=True, kw_only=True):
    """The highest memory of one phase of a run, over all ranks and steps, and its prediction."""

    case: str  # names the run
    phase: str
    predicted_bytes: int  # that PyTorch's allocator hands out at most
    predicted_high_bytes: int  # with the upper end of every term
    measured_bytes: int
    predicted_reserved_bytes: tuple[int, int]  # the least and the most that it holds
    measured_reserved_bytes: int

    @property
    def error(self) -> float:
        """The error of the prediction, as a share of what was measured; above 0: predicted too high."""
        return self.predicted_bytes / self.measured_bytes - 1

    @property
    def reserved_inside(self) -> bool:
        """Whether what was reserved lies in the predicted interval."""
        low, high = self.predicted_reserved_bytes
        return low <= self.measured_reserved_bytes <= high
