"""The words of the verdicts, the only ones there are, and what memory says of a job in a line."""

from collections.abc import Iterator

from tuner.advise import Condition, Judgement, ReleaseRange, Verdict
from tuner.advise.verdicts import engine_problems
from tuner.language import N_, _
from tuner.memory import Estimate, PhaseEstimate
from tuner.render.document.marks import Mark, marked
from tuner.render.numbers import gib, of_gib
from tuner.render.words import titled

_WORDS = {
    Verdict.RAN_OUT: (N_("RAN OUT"), Mark.BAD),
    Verdict.FITS: (N_("FITS"), Mark.GOOD),
    Verdict.MAY_NOT_FIT: (N_("MAY NOT FIT"), Mark.DOUBTFUL),
    Verdict.CANNOT_SAY: (N_("CANNOT SAY"), Mark.DOUBTFUL),
    Verdict.DOES_NOT_FIT: (N_("DOES NOT FIT"), Mark.BAD),
    Verdict.WILL_NOT_START: (N_("WILL NOT START"), Mark.BAD),
}


def word(verdict: Verdict) -> str:
    """The verdict as every output names it."""
    return _(_WORDS[verdict][0])


def marked_word(verdict: Verdict) -> str:
    """The verdict with the mark that good and bad ones have."""
    return marked(word(verdict), _WORDS[verdict][1])


def judgement_text(judgement: Judgement, estimate: Estimate, releases: ReleaseRange | None = None) -> str:
    """What memory says of a job, in a line: ``"FITS, 117.1 GiB of 139.8 at the peak (update_actor)"``."""
    return _("{verdict}, {numbers}").format(
        verdict=word(judgement.verdict), numbers=memory_line(judgement, estimate, releases)
    )


def memory_line(judgement: Judgement, estimate: Estimate, releases: ReleaseRange | None = None) -> str:
    """What stands behind the word of a verdict of memory: what is needed, what there is, one condition.

    Args:
        judgement: of the job.
        estimate: of the same.
        releases: of one whose release is not bundled.
    """
    if judgement.condition is Condition.ENGINE:
        return _beside_engine(judgement.engine, estimate)
    worst = estimate.worst
    if judgement.verdict is Verdict.FITS:
        return _peak(estimate)
    if judgement.condition is Condition.DOUBT and estimate.doubts:
        return _within_but_for(estimate)
    if judgement.verdict is Verdict.MAY_NOT_FIT:
        return titled(_interval(judgement, estimate, releases), _condition(judgement, estimate, releases))
    if judgement.verdict is Verdict.WILL_NOT_START:
        return start_problems(estimate)[0]
    limit = estimate.host_capacity_bytes
    if worst.peak_bytes <= estimate.capacity_bytes and limit is not None:
        return _("{host} of {limit} host memory per node").format(
            host=gib(estimate.host_bytes), limit=of_gib(limit)
        )
    text = _peak(estimate)
    if judgement.condition is not Condition.OWN_PLAN:
        return text
    return _("{text} with FSDP2's own units: a plan of the user's may take less").format(text=text)


def _beside_engine(engine: str, estimate: Estimate) -> str:
    """What is known of a job whose trainer's engine is not modelled: what the rollout engine takes."""
    unknown = _("what {engine} takes of the card is not modelled").format(engine=engine)
    if not estimate.phases:
        return _("{unknown}, and it has the card to itself").format(unknown=unknown)
    return _("{unknown}; without it {peak}").format(unknown=unknown, peak=_peak(estimate))


def _peak(estimate: Estimate) -> str:
    """What the worst phase takes of the card."""
    return _("{peak} of {capacity} at the peak ({phase})").format(
        peak=gib(estimate.worst.peak_bytes),
        capacity=of_gib(estimate.capacity_bytes),
        phase=estimate.worst.phase.value,
    )


def _within_but_for(estimate: Estimate) -> str:
    """What a job takes that fits as far as is counted, and why that may not be all."""
    phase = highest(estimate)
    return _("as counted it does, with {high} of {capacity} at most in {phase}; but {doubt}").format(
        high=of_gib(phase.interval[1]),
        capacity=gib(estimate.capacity_bytes),
        phase=phase.phase.value,
        doubt=estimate.doubts[0],
    )


def start_problems(estimate: Estimate) -> tuple[str, ...]:
    """Why an engine would not start; the last problem of an estimate is a node that has too little memory."""
    return estimate.problems[: engine_problems(estimate)]


def is_told_in_line(reason: str, judgement: Judgement, estimate: Estimate) -> bool:
    """Whether a problem or a doubt stands in the line already."""
    if judgement.verdict is Verdict.WILL_NOT_START:
        return reason == start_problems(estimate)[0]
    return judgement.condition is Condition.DOUBT and reason in estimate.doubts[:1]


def highest(estimate: Estimate) -> PhaseEstimate:
    """The phase that may take most, at the upper end of its interval."""
    return max(estimate.phases, key=lambda phase: phase.interval[1])


def _interval(judgement: Judgement, estimate: Estimate, releases: ReleaseRange | None) -> str:
    """The ends between which the peak lies, and the card."""
    phase = highest(estimate)
    low, high = phase.interval
    if judgement.condition is Condition.RELEASE and releases is not None:
        phase = estimate.worst
        low, high = releases.least.estimate.worst.peak_bytes, releases.most.estimate.worst.peak_bytes
    elif judgement.condition in (Condition.MEAN_LENGTH, Condition.BUDGET_NOT_FILLED, Condition.LOW_END):
        phase = estimate.worst
        low, high = phase.interval
    if judgement.expected_bytes is not None:
        low = min(low, judgement.expected_bytes)
    return _("{low} to {high} of {capacity} in {phase}").format(
        low=of_gib(low), high=of_gib(high), capacity=gib(estimate.capacity_bytes), phase=phase.phase.value
    )


def _condition(judgement: Judgement, estimate: Estimate, releases: ReleaseRange | None) -> str:
    condition = judgement.condition
    if condition is Condition.MEAN_LENGTH:
        return _("fits while sequences stay under {tokens:,} tokens in the mean").format(
            tokens=judgement.mean_tokens
        )
    if condition is Condition.RELEASE and releases is not None:
        return _("what {release} does is not known").format(release=releases.release)
    if condition is Condition.BUDGET_NOT_FILLED:
        return _("fits while no micro-batch fills its budget of tokens")
    if condition is Condition.LOW_END:
        return _("fits at the low end alone")
    return _("fits if nothing else is on the card")


def beside_the_line(judgement: Judgement, estimate: Estimate) -> Iterator[str]:
    """What the line does not have: problems, doubts, and the peak of a job that does not start."""
    if judgement.verdict is Verdict.WILL_NOT_START:
        yield _peak(estimate)
    yield from unsaid_reasons(judgement, estimate)


def unsaid_reasons(judgement: Judgement, estimate: Estimate) -> Iterator[str]:
    """The problems and doubts that the line does not have."""
    for reason in (*estimate.problems, *estimate.doubts):
        if not is_told_in_line(reason, judgement, estimate):
            yield reason
