"""Why nothing fits, and what of a space a search has looked at."""

from collections.abc import Iterator

from tuner.consultation.planning import PlanAnswer
from tuner.language import _
from tuner.plan.answer import ClusterPlan
from tuner.render.document.marks import user_text
from tuner.render.document.parts import Paragraph, Part
from tuner.render.numbers import gib
from tuner.render.words import clauses, full_stop, listed, titled
from tuner.rules.wording import count

_REFUSALS = 5  # that are told


def nothing_fits(answer: PlanAnswer) -> Iterator[Part]:
    """What the setting lacks that comes nearest."""
    lacking = answer.plan.lacking
    if answer.plan.unread:
        yield Paragraph(text=user_text(full_stop(answer.plan.unread)), level=1)
    if lacking is None:
        return
    words = [*lacking.problems]
    if lacking.phase is not None:
        text = _("{phase} lacks {missing} of {capacity}")
        words.insert(
            0,
            text.format(
                phase=lacking.phase.value,
                missing=gib(lacking.missing_bytes),
                capacity=gib(lacking.estimate.capacity_bytes),
            ),
        )
    if words:
        yield Paragraph(
            text=titled(_("The setting that comes nearest"), full_stop(clauses(words))), level=1, further=1
        )


def search_facts(plan: ClusterPlan) -> Iterator[Part]:
    """How much was looked at, what ruled settings out, and what the trainer refuses."""
    if plan.stopped:
        text = _("Stopped after {looked} of {size} settings: this is the best so far.")
    elif plan.whole:
        text = _("All {size} settings were looked at.")
    else:
        text = _("{looked} of {size} settings were looked at, step by step: a better one may be left.")
    yield Paragraph(text=text.format(looked=count(plan.looked_at), size=count(plan.size)), further=1)
    if plan.rejected:
        failed = listed(f"{one.constraint} {count(one.settings)}" for one in plan.rejected)
        yield Paragraph(text=titled(_("Ruled out first by"), failed), level=1, further=1)
    for one in plan.refused[:_REFUSALS]:
        yield Paragraph(text=user_text(titled(one.code, one.message)), level=1, further=1)
