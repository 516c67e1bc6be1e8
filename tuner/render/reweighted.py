"""The block in which tokens weigh otherwise, where nothing else makes a job fit or only a far slower one."""

from collections.abc import Iterator

from tuner.advise import Advice, Combination, Verdict
from tuner.advise.numerics import scales_gradients
from tuner.findings import Numerics
from tuner.language import _
from tuner.render.document.marks import ARROW, strong
from tuner.render.document.parts import Entry, Paste
from tuner.render.numbers import gib
from tuner.render.verdict_words import word
from tuner.render.words import clauses, numerics, pasteable, titled
from tuner.rules.wording import duration


def reweighted_block(advice: Advice) -> Iterator[Entry]:
    """What it makes of the job and of the training, then its overrides; nothing of a job that fits."""
    other = advice.if_reweighted
    if other is None or advice.memory_verdict is Verdict.FITS:
        return
    said = clauses((_fits(other), _seconds(advice, other), *_instead(advice), _effect(advice, other)))
    text = titled(strong(_("With --allow reweighted")), said).replace("->", ARROW)
    yield Entry(text=text, details=(Paste(lines=tuple(map(pasteable, other.overrides)), level=2),))


def _fits(other: Combination) -> str:
    spare = other.estimate.capacity_bytes - other.estimate.high_bytes
    return _("{fits} with {spare} to spare at least").format(fits=word(Verdict.FITS), spare=gib(spare))


def _seconds(advice: Advice, other: Combination) -> str:
    """The seconds of a step beside those of the block, where there is one."""
    after = duration(other.time.seconds)
    if advice.combination is None:
        return _("step {after} s").format(after=after)
    before = duration(advice.combination.time.seconds)
    return _("step {before} -> {after} s").format(before=before, after=after)


def _instead(advice: Advice) -> Iterator[str]:
    if advice.combination is not None:
        yield _("instead of the block, not with it")


def _effect(advice: Advice, other: Combination) -> str:
    effect = numerics(Numerics.REWEIGHTED)
    if scales_gradients(advice.workload, other.workload):
        scaled = _("{numerics}, and gradients scale with the number of micro-batches")
        effect = scaled.format(numerics=effect)
    return _("numerics: {numerics}").format(numerics=effect)
