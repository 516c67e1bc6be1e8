"""Figures over the metrics of several steps."""

from collections.abc import Sequence
from typing import TypeVar

from tuner.inputs.log.metrics import StepMetrics

_Step = TypeVar("_Step")
_WARM_UP_STEPS = 1  # the first step compiles, and fills caches
_ENOUGH_STEPS = 3  # without these


def warm_steps(steps: Sequence[_Step]) -> Sequence[_Step]:
    """The steps behind the one that warms up, where enough are left; else all."""
    return steps[_WARM_UP_STEPS:] if len(steps) >= _WARM_UP_STEPS + _ENOUGH_STEPS else steps


def median_of(steps: Sequence[StepMetrics], *names: str) -> float | None:
    """Over the steps that have one of the metrics; a timer that few steps have counts in these alone."""
    for name in names:
        values = _values(steps, [name])
        if values:
            from statistics import median  # with nine modules; few runs have steps to look at

            return median(values)
    return None


def mean_of(steps: Sequence[StepMetrics], name: str) -> float | None:
    """The mean over the steps that have a metric: of counts, whose median is a whole number."""
    values = _values(steps, [name])
    return sum(values) / len(values) if values else None


def highest_of(steps: Sequence[StepMetrics], *names: str) -> float | None:
    """The highest value of all steps and metrics; None where no step has one."""
    return max(_values(steps, names), default=None)


def _values(steps: Sequence[StepMetrics], names: Sequence[str]) -> list[float]:
    return [step.values[name] for step in steps for name in names if name in step.values]
