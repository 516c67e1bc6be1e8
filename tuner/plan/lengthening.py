"""What lets responses get longer than a layout has room for, and what that costs.

The rules are asked about the job with a cap that it has no room for. Each of their proposals is written for
the trainer and laid on the job as it is configured, whose largest cap is then asked for again.
"""

from collections.abc import Iterator
from math import ceil
from typing import Annotated

from msgspec import Meta, Struct

from tuner import rules
from tuner.advise.answer import FollowedFinding
from tuner.advise.numerics import is_allowed, numerics
from tuner.advise.reading import Reading
from tuner.findings import Finding
from tuner.plan.carrying import (
    Caps,
    Reach,
    cap_reach,
    carries,
    length_refusals,
    most_positions,
    time_with,
)
from tuner.rules.case import Case
from tuner.timing import Interval, StepChange, change, step_interval

# Times the largest cap that rules are asked about. What is sized for twice the length may leave no room for a
# token more, as a budget for such sequences: where nothing helps, they are asked about less.
_FURTHER = (2.0, 1.25, 1.05)


class Lengthening(FollowedFinding, frozen=True, kw_only=True):
    """What lets responses get longer than they may without it, and what it costs where both may be."""

    yours: Annotated[bool, Meta(description="for the user to decide: it changes the training")]
    cap: Annotated[Reach, Meta(description="the largest with which the job fits for certain then")]
    seconds_before: Annotated[float, Meta(description="of a step at the largest cap without it")]
    step: Annotated[Interval, Meta(description="seconds of a step at that same length with it")]
    change: Annotated[StepChange, Meta(description="from the seconds before")]

    @property
    def message(self) -> str:
        """What the rule has to say of it."""
        return self.finding.message


class Longest(Struct, frozen=True, kw_only=True):
    """The longest responses that a layout has room for, and what would lengthen them."""

    cap: Annotated[Reach | None, Meta(description="null where none is certain")]
    lengthened: Annotated[
        tuple[Lengthening, ...],
        Meta(description="what may be pasted first, of these what carries furthest"),
    ]

    @property
    def next(self) -> Lengthening | None:
        """What lengthens responses most; None where nothing does."""
        return self.lengthened[0] if self.lengthened else None


def longest(reading: Reading, *, headroom: float = 0.0) -> Longest:
    """The longest responses that a job has room for, and what would lengthen them at which price.

    Args:
        reading: the job.
        headroom: share of the card that proposals leave free.
    """
    cap = cap_reach(reading)
    if cap is None:
        return Longest(cap=None, lengthened=())
    for times in _FURTHER:
        longer = min(most_positions(reading.workload), ceil(times * cap.tokens))
        ways = list(_lengthened(reading, cap, longer, headroom)) if longer > cap.tokens else []
        if ways:
            ways.sort(key=lambda way: (way.yours, -way.cap.tokens, way.step.seconds))
            return Longest(cap=cap, lengthened=tuple(ways))
    return Longest(cap=cap, lengthened=())


def _lengthened(reading: Reading, cap: Reach, longer: int, headroom: float) -> Iterator[Lengthening]:
    """Every proposal about responses that are longer than the largest cap which raises it."""
    try:
        further = Caps(reading).reading(longer)
    except ValueError:  # the trainer does not read such a length
        return
    asked = rules.run(Case.of(further.workload, headroom=headroom))
    tried: set[tuple[str, ...]] = set()
    for finding in (*asked, *length_refusals(further)):
        overrides = _overrides(further, finding)
        if overrides and overrides not in tried:
            tried.add(overrides)
            way = _priced(reading, cap, finding, overrides)
            if way is not None:
                yield way


def _overrides(further: Reading, finding: Finding) -> tuple[str, ...]:
    """What a finding would set; nothing where it cannot be written."""
    if finding.proposal is None:
        return finding.overrides
    try:
        return further.write(finding.proposal).overrides
    except ValueError:
        return ()


def _lifts(changed: Reading, cap: Reach) -> bool:
    """Whether what was in the way of the next token is so no more."""
    caps, longer = Caps(changed), cap.tokens + 1
    if not carries(caps.workload(longer)):
        return False
    code = "" if cap.limit is None else cap.limit.code
    return not code or all(finding.code != code for finding in length_refusals(caps.reading(longer)))


def _priced(reading: Reading, cap: Reach, finding: Finding, overrides: tuple[str, ...]) -> Lengthening | None:
    """The largest cap with overrides, and what they cost at the cap without; None where it is no larger."""
    try:
        changed = reading.adding(overrides)
        before, after = (Caps(one).workload(cap.tokens) for one in (reading, changed))
        further = cap_reach(changed) if _lifts(changed, cap) else None
    except ValueError:
        return None
    if further is None or further.tokens <= cap.tokens:
        return None
    effect = numerics(finding, before, after)
    time, time_then = (time_with(workload, cap.tokens) for workload in (before, after))
    return Lengthening(
        finding=finding,
        overrides=overrides,
        numerics=effect,
        yours=finding.rule.yours or not is_allowed(effect, ()),
        cap=further,
        seconds_before=time.seconds,
        step=step_interval(time_then, after.cluster),
        change=change(time, time_then, before.cluster, then=after.cluster),
    )
