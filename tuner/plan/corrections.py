"""A plan whose first settings were measured: all of them in the order that this leaves."""

from typing import Annotated

from msgspec import Meta, Struct

from tuner.field_marks import Seconds
from tuner.timing import Interval
from tuner.workload import Phase


class PhaseRatio(Struct, frozen=True, kw_only=True):
    """What a phase takes here over what is modelled of it."""

    phase: Phase
    ratio: Annotated[float, Meta(description="measured over modelled seconds")]
    own: Annotated[bool, Meta(description="measured with this setting; false: with one of the same shape")]
    borrowed: Annotated[
        bool,
        Meta(description="of other shapes alone, as nothing of this one was measured: it may be 1 as well"),
    ] = False


class CorrectedSetting(Struct, frozen=True, kw_only=True):
    """A setting of the plan with the seconds that were measured of it, or of others like it."""

    place: Annotated[int, Meta(description="among the settings of the plan, from 1")]
    rank: Annotated[int, Meta(description="by what was measured; ties share one")]
    step: Interval
    modelled_s: Seconds
    ratios: tuple[PhaseRatio, ...] = ()


class MeasuredPlan(Struct, frozen=True, kw_only=True):
    """The settings of a plan in the order of the seconds that measuring some of them leaves."""

    settings: tuple[CorrectedSetting, ...]
    device: str
    budget_s: Annotated[float, Meta(description="that measuring was given")] = 0.0
    spent_s: Annotated[float, Meta(description="that measuring took")] = 0.0
    notes: tuple[str, ...] = ()
