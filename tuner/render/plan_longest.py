"""The longest responses that the layouts of a plan have room for, in words and for a program."""

from collections.abc import Iterator

from tuner.consultation.longest_responses import LayoutReach
from tuner.consultation.planning import PlanAnswer
from tuner.language import _
from tuner.render.carrying import longest_response
from tuner.render.document.marks import code, strong, user_text
from tuner.render.document.parts import Heading, Paragraph, Part


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
