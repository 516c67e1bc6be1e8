"""What is left to decide beside the block: what of that goes with it, and whether decisions go together."""

from collections.abc import Iterator, Sequence

from tuner.advise import Advice, Recommendation
from tuner.advise.beside_block import beside_block, with_block, without_block
from tuner.language import _
from tuner.render.document.marks import ARROW
from tuner.render.document.parts import Paragraph
from tuner.render.numbers import gib
from tuner.render.recommendations import is_among, share
from tuner.render.words import listed
from tuner.rules.wording import duration

_SEVERAL = 2


def instead_of_block(item: Recommendation, advice: Advice) -> str:
    """The words for a decision that does not go with the block; none for one that does."""
    if advice.combination is None or item.workload is None or with_block(item, advice) is not None:
        return ""
    beside = beside_block(item, advice)
    if beside is None:
        return _("instead of the block, not with it")
    return (
        _("with the block but for {left}: step {before} -> {after} s")
        .format(
            left=listed(beside.left),
            before=duration(advice.combination.time.seconds),
            after=duration(beside.case.time.seconds),
        )
        .replace("->", ARROW)
    )


def going_together(items: Sequence[Recommendation], advice: Advice) -> Iterator[Paragraph]:
    """Whether decisions, of which some stand instead of the block, go together; nothing of one alone."""
    decisions = _each_adding(items, advice)
    if len(decisions) < _SEVERAL or not any(instead_of_block(item, advice) for item in decisions):
        return
    rules = listed(dict.fromkeys(item.finding.rule.code for item in decisions))
    job = without_block(decisions, advice)
    if job is None:
        text = _("{rules} do not all go together, even without the block.").format(rules=rules)
        yield Paragraph(text=text, further=1)
        return
    text = _(
        "{rules} go together, instead of the block: step {before} -> {after} s, worst phase {peak}."
    ).format(
        rules=rules,
        before=duration(advice.time.seconds),
        after=duration(job.time.seconds),
        peak=gib(job.estimate.worst.peak_bytes),
    )
    yield Paragraph(text=text.replace("->", ARROW), further=1)


def _each_adding(decisions: Sequence[Recommendation], advice: Advice) -> list[Recommendation]:
    """The decisions without those that are nothing beside others, as fixed batches are beside a budget."""
    kept = list[Recommendation]()
    for item in sorted(decisions, key=share, reverse=True):
        before, after = without_block(kept, advice), without_block([*kept, item], advice)
        nothing = before is not None and after is not None and before.time.seconds <= after.time.seconds
        if not (kept and nothing):
            kept.append(item)
    return [item for item in decisions if is_among(item, kept)]
