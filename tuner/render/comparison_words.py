"""Words on two configurations that the text and the Markdown of their comparison share."""

from tuner.advise import Verdict
from tuner.consultation.comparison import KeyEntry, Side
from tuner.language import N_, _
from tuner.render.difference_words import shows
from tuner.render.numbers import gib
from tuner.render.words import listed
from tuner.trainers.key_facts import KeyFate

VERDICTS = {
    Verdict.WILL_NOT_START: N_("WILL NOT START"),
    Verdict.FITS: N_("FITS"),
    Verdict.FITS_ALONE: N_("FITS if nothing else uses the GPU"),
    Verdict.DEPENDS_ON_RELEASE: N_("MAY NOT FIT"),
    Verdict.FITS_WHILE_SHORT: N_("FITS while short"),
    Verdict.DOES_NOT_FIT: N_("DOES NOT FIT"),
}
CHANGES = {
    KeyFate.VALUE: N_("set"),
    KeyFate.DEFAULT: N_("another default"),
    KeyFate.RENAMED: N_("renamed"),
    KeyFate.NEW: N_("new"),
    KeyFate.VANISHED: N_("gone"),
    KeyFate.UNREAD: N_("no longer read"),
    KeyFate.READ: N_("read from now on"),
    KeyFate.MEANING: N_("read otherwise"),
}


def is_told(entry: KeyEntry) -> bool:
    """Whether the short answer has more than the name of a key."""
    return any(shows(difference.effect) for difference in entry.differences) or (
        entry.change.by_user and entry.change.change is not KeyFate.VALUE
    )


def peak_words(side: Side) -> str:
    """Where the memory of a job peaks, and of one that is refused what it would take."""
    estimate = side.job.case.estimate
    peak = _("{phase} peaks at {peak} of {capacity}").format(
        phase=estimate.worst.phase.value,
        peak=gib(estimate.worst.peak_bytes),
        capacity=gib(estimate.capacity_bytes),
    )
    if not side.job.refusals:
        return peak
    codes = listed(dict.fromkeys(refusal.finding.rule.code for refusal in side.job.refusals))
    return _("refused ({codes}); with that lifted {peak}").format(codes=codes, peak=peak)
