"""The peaks of a recorded run beside their predictions, in bytes."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from tuner.field_marks import RelativeError
from tuner.memory import PhaseEstimate
from tuner.rules.case import CaseFigures
from tuner.workload import Phase
from tuner.workload.observed_run import PeakMemory

STEP = "step"


class RecordedPeak(Struct, frozen=True, kw_only=True):
    """The highest memory of one phase of a run, over all ranks and steps, and its prediction."""

    case: Annotated[str, Meta(description="the run")]
    phase: Annotated[str, Meta(description="step: the highest of all phases, as a trainer's metric has it")]
    predicted_bytes: Annotated[int, Meta(description="bytes that PyTorch's allocator hands out at most")]
    predicted_high_bytes: Annotated[int, Meta(description="bytes, with the upper end of every term")]
    measured_bytes: int
    predicted_reserved_bytes: Annotated[
        tuple[int, int], Meta(description="the least and the most bytes that the allocator holds")
    ]
    measured_reserved_bytes: Annotated[int | None, Meta(description="bytes; null where nobody says")]

    @property
    def error(self) -> RelativeError:
        """The error of the prediction, as a share of what was measured; above 0: predicted too high."""
        return self.predicted_bytes / self.measured_bytes - 1

    @property
    def reserved_inside(
        self,
    ) -> Annotated[bool | None, Meta(description="of the predicted interval; null where nobody says")]:
        """Whether what was reserved lies in the predicted interval; None: nobody says what was."""
        low, high = self.predicted_reserved_bytes
        reserved = self.measured_reserved_bytes
        return None if reserved is None else low <= reserved <= high


def peak_of_step(case: str, figures: CaseFigures, memory: PeakMemory) -> RecordedPeak | None:
    """The highest memory that a trainer's metric tells, beside that of the phase that takes most.

    Args:
        case: the run.
        figures: the model's, of its job.
        memory: as the run reports it, with an engine that its counters hold.
    """
    if not memory.allocated_bytes:
        return None
    phases, engine = figures.estimate.phases, _engine_bytes(figures) if memory.holds_engine else 0
    reserved = [phase.reserved_interval for phase in phases]
    return RecordedPeak(
        case=case,
        phase=STEP,
        predicted_bytes=engine + max(phase.allocated_bytes for phase in phases),
        predicted_high_bytes=engine + max(phase.allocated_high_bytes for phase in phases),
        measured_bytes=memory.allocated_bytes,
        predicted_reserved_bytes=(
            engine + max(low for low, _high in reserved),
            engine + max(high for _low, high in reserved),
        ),
        measured_reserved_bytes=memory.reserved_bytes,
    )


def peaks_of_phases(
    case: str, figures: CaseFigures, measured: dict[Phase, tuple[int, int | None]], *, holds_engine: bool
) -> Iterator[RecordedPeak]:
    """The peaks of single phases, of those that the model has.

    Args:
        case: the run.
        figures: the model's, of its job.
        measured: bytes that were allocated, and reserved or None, by phase.
        holds_engine: whether the counters of the trainer's process have the rollout engine too.
    """
    engine = _engine_bytes(figures) if holds_engine else 0
    for phase in Phase:
        estimate = figures.estimate.phase(phase)
        if phase in measured and estimate is not None:
            yield _peak(case, estimate, *measured[phase], engine)


def _peak(case: str, phase: PhaseEstimate, allocated: int, reserved: int | None, engine: int) -> RecordedPeak:
    low, high = phase.reserved_interval
    return RecordedPeak(
        case=case,
        phase=phase.phase.value,
        predicted_bytes=engine + phase.allocated_bytes,
        predicted_high_bytes=engine + phase.allocated_high_bytes,
        measured_bytes=allocated,
        predicted_reserved_bytes=(engine + low, engine + high),
        measured_reserved_bytes=reserved,
    )


def _engine_bytes(figures: CaseFigures) -> int:
    """What the counters of the trainer's process have of a rollout engine, whether on the card or not."""
    rollout = figures.rollout
    return rollout.weight_bytes + max(0, rollout.kv_bytes)
