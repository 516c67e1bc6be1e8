"""How long responses may get on layouts of a plan: the job's own, the fastest and the most spacious one."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from tuner.consultation.configuration_reading import ConfigurationReading
from tuner.plan.answer import ClusterPlan
from tuner.plan.carrying import Caps, Reach, cap_reach
from tuner.plan.lengthening import Lengthening, Longest, longest
from tuner.workload import Workload


class LayoutReach(Struct, frozen=True, kw_only=True):
    """The longest responses of one layout, and what would lengthen them."""

    place: Annotated[
        int | None, Meta(description="among the settings of the plan, from 1; null: the job as it is")
    ]
    overrides: tuple[str, ...]
    workload: Workload
    longest: Longest
    lines: Annotated[
        tuple[str, ...], Meta(description="overrides that let responses get so long; empty where they may")
    ]
    farthest: Annotated[bool, Meta(description="no setting of the plan has room for longer ones")] = False

    @property
    def tokens_now(self) -> Annotated[int, Meta(description="the cap that is configured")]:
        """Tokens of the longest response that is configured."""
        return self.workload.batch.max_response_tokens

    @property
    def cap(self) -> Annotated[Reach | None, Meta(description="null where no length is certain")]:
        """The longest responses with which it fits for certain."""
        return self.longest.cap

    @property
    def lengthened(
        self,
    ) -> Annotated[
        tuple[Lengthening, ...],
        Meta(description="what may be pasted first, of these what carries furthest"),
    ]:
        """What would let them get longer."""
        return self.longest.lengthened


def longest_responses(
    reading: ConfigurationReading, plan: ClusterPlan, *, headroom: float, before: tuple[str, ...]
) -> tuple[LayoutReach, ...]:
    """The longest responses on the layouts that matter: each names its own limit and what lifts it.

    Args:
        reading: the job on the plan's cluster.
        plan: its settings there.
        headroom: share of the card that proposals leave free.
        before: overrides without which the job cannot be read on these GPUs.
    """
    return tuple(_layouts(reading, plan, headroom, before))


def _layouts(
    reading: ConfigurationReading, plan: ClusterPlan, headroom: float, before: tuple[str, ...]
) -> Iterator[LayoutReach]:
    best = plan.best
    if best is None or not best.own:
        yield _reach(reading, headroom, place=None, overrides=before)
    readings = [
        reading.adding(setting.overrides) if setting.overrides else reading for setting in plan.settings
    ]
    caps = [cap_reach(one) for one in readings]
    farthest = _farthest(caps)
    for place in sorted({0, farthest} if caps else ()):
        yield _reach(
            readings[place],
            headroom,
            place=place + 1,
            overrides=plan.settings[place].overrides,
            farthest=place == farthest,
        )


def _reach(
    reading: ConfigurationReading,
    headroom: float,
    *,
    place: int | None,
    overrides: tuple[str, ...],
    farthest: bool = False,
) -> LayoutReach:
    answer = longest(reading, headroom=headroom)
    return LayoutReach(
        place=place,
        overrides=overrides,
        workload=reading.workload,
        longest=answer,
        lines=() if answer.cap is None else Caps(reading).overrides(answer.cap.tokens),
        farthest=farthest,
    )


def _farthest(caps: list[Reach | None]) -> int:
    """The setting with room for the longest responses; of several the fastest."""
    tokens = [0 if cap is None else cap.tokens for cap in caps]
    return tokens.index(max(tokens)) if tokens else 0
