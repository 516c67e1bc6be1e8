"""The answer: what is wrong, what to change, and what each change costs or gains."""

from collections.abc import Callable
from enum import Enum

from msgspec import Struct

from tuner.advise.releases import ReleaseRange
from tuner.findings import Finding
from tuner.memory import Estimate, RolloutMemory
from tuner.timing import StepTime
from tuner.workload import Phase, Workload

OverrideWriter = Callable[[Workload], tuple[str, ...]]
"""Turns a proposal into the trainer's overrides of the original; ValueError where it has no keys for it."""


class Verdict(Enum):
    """Whether the configuration fits the card, all sequences taken at their maximum length."""

    FITS = "fits"  # the high end of the worst phase's interval is within the card
    FITS_ALONE = "fits_alone"  # the expected peak is, the high end is not: nothing else may use the GPU
    DEPENDS_ON_RELEASE = "depends_on_release"  # as some releases run it, and the one meant is not bundled
    FITS_WHILE_SHORT = "fits_while_short"  # until sequences grow towards their maximum length
    DOES_NOT_FIT = "does_not_fit"  # the expected peak is beyond the card, or the job cannot run at all


class Price(Struct, frozen=True, kw_only=True):
    """What one proposal costs or gains, priced alone against the original."""

    phase: Phase  # the finding's phase, or the worst one
    before_bytes: int  # peak of that phase
    after_bytes: int
    worst_before_bytes: int  # peak of the worst phase
    worst_after_bytes: int
    seconds_before: float  # of the whole step, modelled
    seconds_after: float


class Recommendation(Struct, frozen=True, kw_only=True):
    """A finding with its price; ``price`` is None for findings that propose no workload."""

    finding: Finding
    overrides: tuple[str, ...]
    price: Price | None
    conflicts: tuple[str, ...] = ()  # names of rules that set the same field differently


class Combination(Struct, frozen=True, kw_only=True):
    """All accepted proposals together, priced once more."""

    rules: tuple[str, ...]
    overrides: tuple[str, ...]
    workload: Workload
    estimate: Estimate
    time: StepTime


class Advice(Struct, frozen=True, kw_only=True):
    """The whole answer. Every output format is a rendering of this."""

    workload: Workload
    estimate: Estimate
    rollout: RolloutMemory
    time: StepTime
    headroom: float
    verdict: Verdict
    mean_tokens: int | None  # mean sequence length that still fits; None where no length does
    recommendations: tuple[Recommendation, ...]  # ranked: errors, then by gain
    combination: Combination | None
    releases: ReleaseRange | None = None  # of a release that is not bundled
