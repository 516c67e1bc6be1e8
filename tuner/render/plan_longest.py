"""The longest responses that the layouts of a plan have room for, in words and for a program."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from tuner.consultation.longest_responses import LayoutReach
from tuner.consultation.planning import PlanAnswer
from tuner.findings import Numerics
from tuner.language import _
from tuner.plan.carrying import Reach
from tuner.plan.lengthening import Lengthening
from tuner.render.carrying import longest_response
from tuner.render.document.marks import code, strong, user_text
from tuner.render.document.parts import Heading, Paragraph, Part
from tuner.timing import Interval, StepChange


class LengtheningReport(Struct, frozen=True, kw_only=True):
    """What lets responses get longer, and what it costs where both may be."""

    code: str
    name: str
    message: str
    overrides: tuple[str, ...]
    numerics: Annotated[Numerics, Meta(description="what it does to the training in this job")]
    yours: Annotated[bool, Meta(description="for the user to decide: it changes the training")]
    cap: Annotated[Reach, Meta(description="the largest with which the job fits for certain then")]
    seconds_before: Annotated[float, Meta(description="of a step at the largest cap without it")]
    step: Annotated[Interval, Meta(description="seconds of a step at that same length with it")]
    change: Annotated[StepChange, Meta(description="from the seconds before")]


class LayoutReachReport(Struct, frozen=True, kw_only=True):
    """The longest responses of one layout, and what would lengthen them."""

    place: Annotated[
        int | None, Meta(description="among the settings of the plan, from 1; null: the job as it is")
    ]
    overrides: tuple[str, ...]
    tokens_now: Annotated[int, Meta(description="the cap that is configured")]
    farthest: Annotated[bool, Meta(description="no setting of the plan has room for longer ones")]
    cap: Annotated[Reach | None, Meta(description="null where no length is certain")]
    lines: Annotated[
        tuple[str, ...], Meta(description="overrides that let responses get so long; empty where they may")
    ]
    lengthened: Annotated[
        tuple[LengtheningReport, ...],
        Meta(description="what may be pasted first, of these what carries furthest"),
    ]


def longest_responses(answer: PlanAnswer) -> Iterator[Part]:
    """For each layout its longest responses, what binds then, what lifts that, and at which price."""
    if not answer.longest:
        return
    generates = answer.job.reading.workload.rollout is not None
    yield Heading(text=_("The longest responses") if generates else _("The longest sequences"))
    for layout in answer.longest:
        yield Paragraph(text=strong(user_text(_layout_words(layout))), level=1)
        for text in longest_response(layout.workload, layout.longest):
            yield Paragraph(text=text, level=1, further=1)
    yield from _planned_for(answer)


def _planned_for(answer: PlanAnswer) -> Iterator[Part]:
    """How to have settings that are chosen for the longest of these responses."""
    layouts = [layout for layout in answer.longest if len(layout.lines) == 1]
    farthest = max(layouts, key=lambda one: one.longest.cap.tokens if one.longest.cap else 0, default=None)
    if farthest is None or farthest.longest.cap is None:
        return
    now, cap = farthest.workload.batch.max_response_tokens, farthest.longest.cap.tokens
    if cap > now:
        text = _("The settings are chosen for {now:,} tokens; for {cap:,} plan again with {option}.")
        option = code(f"--hold {farthest.lines[0]}")
        yield Paragraph(text=text.format(now=now, cap=cap, option=option), level=1, further=1)


def _layout_words(layout: LayoutReach) -> str:
    """Which layout it is; the fastest one and that which goes farthest may be the same."""
    if layout.place is None:
        if not layout.overrides:
            return _("The job as it is")
        return _("The job with {overrides}").format(overrides=" ".join(layout.overrides))
    if layout.place > 1:
        return _("Of the settings above the one that goes farthest, number {place}").format(
            place=layout.place
        )
    if layout.farthest:
        return _("The first setting above, of which none goes farther")
    return _("The first setting above")


def layout_reports(answer: PlanAnswer) -> tuple[LayoutReachReport, ...]:
    """How long responses may get on each layout, as a program reads it."""
    return tuple(
        LayoutReachReport(
            place=layout.place,
            overrides=layout.overrides,
            tokens_now=layout.workload.batch.max_response_tokens,
            farthest=layout.farthest,
            cap=layout.longest.cap,
            lines=layout.lines,
            lengthened=tuple(map(_lengthening_report, layout.longest.lengthened)),
        )
        for layout in answer.longest
    )


def _lengthening_report(way: Lengthening) -> LengtheningReport:
    return LengtheningReport(
        code=way.code,
        name=way.name,
        message=way.finding.message,
        overrides=way.overrides,
        numerics=way.numerics,
        yours=way.yours,
        cap=way.cap,
        seconds_before=way.seconds_before,
        step=way.step,
        change=way.change,
    )
