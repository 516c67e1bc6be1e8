"""What would make the interval of a step's seconds narrower, if somebody said it."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from tuner.hardware import Cluster
from tuner.timing.estimate import StepTime
from tuner.timing.spreads import SpreadFamily
from tuner.timing.uncertainty import Interval, step_interval

_WORTH_A_WORD = 0.95  # of the interval's width; what leaves more is not named


class Narrowing(Struct, frozen=True, kw_only=True):
    """Something that nobody said, and how wide the interval stays once it is known."""

    name: Annotated[str, Meta(description="the option that says it, without hyphens and with _ for -")]
    width_share: Annotated[float, Meta(description="width of the interval that stays, over that of today")]


def narrowings(time: StepTime, cluster: Cluster) -> tuple[Narrowing, ...]:
    """What nobody said, most telling first: lengths, shares and rates whose range the interval has in it.

    Args:
        time: of a step.
        cluster: the GPUs.
    """
    today = _width(step_interval(time, cluster))
    candidates: list[tuple[str, StepTime, Cluster]] = [
        (family.value, _without(time, family), cluster)
        for family in (SpreadFamily.LONGEST, SpreadFamily.GROUPS)
        if any(one.family is family for phase in time.phases for one in phase.ranges)
    ]
    if cluster.nodes > 1 and cluster.network_assumed:
        candidates.append(("network", time, replace(cluster, network_assumed=False)))
    shares = ((name, _width(step_interval(step, on)) / today) for name, step, on in candidates if today)
    narrower = [Narrowing(name=name, width_share=share) for name, share in shares if share < _WORTH_A_WORD]
    return tuple(sorted(narrower, key=lambda one: one.width_share))


def _width(interval: Interval) -> float:
    return interval.high_s - interval.low_s


def _without(time: StepTime, family: SpreadFamily) -> StepTime:
    phases = (
        replace(phase, ranges=tuple(one for one in phase.ranges if one.family is not family))
        for phase in time.phases
    )
    return replace(time, phases=tuple(phases))
