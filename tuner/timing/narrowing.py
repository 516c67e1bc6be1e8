"""What would make the interval of a step's seconds, or of its widest phase, narrower if somebody said it."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from tuner.hardware import Cluster, MeasuredGpu
from tuner.timing.corrections import OperatorFamily
from tuner.timing.estimate import PhaseTime, StepTime
from tuner.timing.spreads import SpreadFamily
from tuner.timing.uncertainty import Interval, phase_interval, step_interval

_WORTH_A_WORD = 0.95  # of the interval's width; what leaves more is not named
_HALF = 0.5
PROFILE = "profile"
"""What ``tuner validate`` writes of a card and its host."""

_RATES = (SpreadFamily.PRODUCTS, SpreadFamily.MEMORY, SpreadFamily.LINKS, SpreadFamily.HOST_LINK)


class Narrowing(Struct, frozen=True, kw_only=True):
    """Something that nobody said, and how wide the interval stays once it is known."""

    name: Annotated[str, Meta(description="the option that says it, without hyphens and with _ for -")]
    width_share: Annotated[float, Meta(description="width of the interval that stays, over that of today")]


class Halving(Struct, frozen=True, kw_only=True):
    """The phase whose seconds are the least sure, and the fewest things that halve its interval if said."""

    phase: PhaseTime
    interval: Interval
    names: tuple[str, ...]  # of options, or :data:`PROFILE`
    width_share: float  # that stays with all of them


def narrowings(time: StepTime, cluster: Cluster) -> tuple[Narrowing, ...]:
    """What nobody said, most telling first: lengths, shares and rates whose range the interval has in it.

    Args:
        time: of a step.
        cluster: the GPUs.
    """
    today = _width(step_interval(time, cluster))
    shares = (
        (name, _width(step_interval(_knowing(time, name), _cluster_knowing(cluster, name))) / today)
        for name in _unsaid(time.phases, cluster)
        if today
    )
    narrower = [Narrowing(name=name, width_share=share) for name, share in shares if share < _WORTH_A_WORD]
    return tuple(sorted(narrower, key=lambda one: one.width_share))


def halving(time: StepTime, cluster: Cluster) -> Halving | None:
    """What halves the interval of the phase with the widest one; None where nothing that can be said does.

    Args:
        time: of a step.
        cluster: the GPUs.
    """
    intervals = [(phase, phase_interval(phase, cluster)) for phase in time.phases]
    phase, interval = max(intervals, key=lambda one: _width(one[1]), default=(None, None))
    if phase is None or interval is None or not _width(interval):
        return None

    def share_with(*names: str) -> float:
        step, on = StepTime(phases=(phase,)), cluster
        for name in names:
            step, on = _knowing(step, name), _cluster_knowing(on, name)
        return _width(phase_interval(step.phases[0], on)) / _width(interval)

    names = sorted((*_unsaid((phase,), cluster), PROFILE), key=share_with)
    for count in range(1, len(names) + 1):
        share = share_with(*names[:count])
        if share <= _HALF:
            return Halving(phase=phase, interval=interval, names=tuple(names[:count]), width_share=share)
    return None


def _width(interval: Interval) -> float:
    return interval.high_s - interval.low_s


def _unsaid(phases: tuple[PhaseTime, ...], cluster: Cluster) -> Iterator[str]:
    for family in (SpreadFamily.LONGEST, SpreadFamily.GROUPS):
        if any(one.family is family for phase in phases for one in phase.ranges):
            yield family.value
    if cluster.nodes > 1 and cluster.network_assumed:
        yield "network"


def _knowing(time: StepTime, name: str) -> StepTime:
    """The step without the range of what is said by this name."""
    phases = (
        replace(phase, ranges=tuple(one for one in phase.ranges if one.family.value != name))
        for phase in time.phases
    )
    return replace(time, phases=tuple(phases))


def _cluster_knowing(cluster: Cluster, name: str) -> Cluster:
    """The cluster with what is said by this name; which figures a profile has, and not how large they are."""
    if name == "network":
        return replace(cluster, network_assumed=False)
    if name != PROFILE:
        return cluster
    profile = cluster.gpu.measured or MeasuredGpu(date="", versions=())
    figures = [*(rate.value for rate in _RATES), *(family.value for family in OperatorFamily)]
    added = {figure: 1.0 for figure in figures if getattr(profile, figure) is None}
    return replace(cluster, gpu=replace(cluster.gpu, measured=replace(profile, **added)))
