"""One proposal: its price, whether it pays, and where it ranks."""

from collections.abc import Collection, Sequence
from functools import lru_cache

from msgspec import Struct

from tuner.advise.answer import Price, Recommendation
from tuner.advise.numerics import is_allowed, numerics
from tuner.advise.reading import Reading
from tuner.advise.refusals import only_in
from tuner.findings import Finding, Goal, Numerics, Severity, Written
from tuner.rules.case import LEAST_GAIN, Case
from tuner.rules.packing import needs_flash
from tuner.rules.rollout_engine import starts
from tuner.workload import Workload


class Cheapest(Struct, frozen=True, kw_only=True):
    """The form of a job that runs with the least change of its memory."""

    case: Case
    rules: tuple[str, ...]  # whose changes it has; none where the job runs as it is


def recommend(
    case: Case,
    finding: Finding,
    reading: Reading,
    *,
    cheapest: Cheapest | None,
    allow: Collection[Numerics],
) -> Recommendation | None:
    """A finding with the price of what its overrides read back to; without, where the engine is not modelled.

    None when a proposal does not pay, or cannot be written. What a check would set is kept whatever it
    costs; if the job is worse with it, it is for the user to decide.
    """
    proposal = finding.proposal
    if finding.grounds is not None or (proposal is not None and not helps(case, finding, proposal)):
        return None
    after = _written(reading, finding)
    if after is None and proposal is not None:
        return None
    if proposal is not None and after is not None and len(after.overrides) > 1:
        after = _without_idle_lines(reading, case, finding, after)
    reads_otherwise = proposal is not None and after is not None and after.workload != proposal
    if reads_otherwise and after is not None and not helps(case, finding, after.workload):
        return None
    if finding.rule.yours and after is not None and _brings_an_error(reading, after.overrides):
        return None
    workload = None if after is None or after.workload == case.workload else after.workload
    effect = numerics(finding, case.workload, workload, elsewhere=reading.averages_elsewhere)
    elsewhere = ""
    if proposal is not None and after is not None and matters(case, after.workload):
        elsewhere = _serving_releases(reading, finding, after, case, effect)
    if elsewhere:
        finding = only_in(finding, elsewhere)
    modelled = not case.workload.unmodelled_engine  # else no step has all its bytes and seconds
    worse = proposal is None and workload is not None and is_worse(case, case.with_workload(workload))
    return Recommendation(
        finding=finding,
        overrides=finding.overrides if after is None else after.overrides,
        workload=workload,
        price=price_of(case, finding, workload, cheapest) if workload is not None and modelled else None,
        numerics=effect,
        yours=finding.rule.yours
        or bool(elsewhere)
        or (bool(finding.overrides or after) and (worse or not is_allowed(effect, allow))),
    )


def _without_idle_lines(reading: Reading, case: Case, finding: Finding, after: Written) -> Written:
    """A finding's lines without those that change nothing, where it is worth its word without them."""
    if not matters(case, after.workload):
        return after
    from tuner.advise.idle_lines import without_idle  # where a finding sets several lines

    fewer = without_idle(reading, case, finding, after)
    if fewer == after or not helps(case, finding, fewer.workload):
        return after
    effect = numerics(finding, case.workload, fewer.workload, elsewhere=reading.averages_elsewhere)
    return after if _serving_releases(reading, finding, fewer, case, effect) else fewer


def matters(case: Case, proposal: Workload) -> bool:
    """Whether a proposal may be worth a line: it saves a percent of the step, or memory that is missing."""
    proposed = case.with_workload(proposal)
    if case.short() is not None:
        return True
    return proposed.time.seconds < case.time.seconds * (1 - LEAST_GAIN)


def _serving_releases(
    reading: Reading, finding: Finding, after: Written, case: Case, effect: Numerics
) -> str:
    """The releases in which a proposal serves its rule's goal, where these are not all that are likely.

    One in which the training is another with it, as it is not here, is none of them.
    """

    def serves(before: Workload, changed: Workload) -> bool:
        other = Case.of(before, headroom=case.headroom)
        if not finding.rule.package and needs_flash(before, changed):
            return False
        if effect is not Numerics.CHANGED and numerics(finding, before, changed) is Numerics.CHANGED:
            return False
        return changed != before and helps(other, finding, changed)

    return reading.serving_releases(after.overrides, serves)


def _brings_an_error(reading: Reading, overrides: Sequence[str]) -> bool:
    """Whether the trainer's checks have an error to report once overrides are added."""
    before, after = (
        {finding.rule.code for finding in state.findings if finding.severity is Severity.ERROR}
        for state in (reading, reading.adding(overrides))
    )
    return not after <= before


def _written(reading: Reading, finding: Finding) -> Written | None:
    """What a finding would set, as the trainer reads it; None where it sets nothing or cannot be read."""
    try:
        if finding.proposal is not None:
            return reading.write(finding.proposal)
        if not finding.overrides:
            return None
        return Written(overrides=finding.overrides, workload=reading.adding(finding.overrides).workload)
    except ValueError:
        return None


def price_of(case: Case, finding: Finding, proposal: Workload, cheapest: Cheapest | None) -> Price:
    """What a proposal costs or gains in the finding's phase, in the worst one, and in time.

    Seconds of a run that cannot exist are none: they are compared with those of the cheapest form that runs.
    What that form has already is not compared with it. Of a finding without a phase the one counts that lacks
    most memory: its interval may end beyond the card while another one's expected peak is higher.
    """
    proposed = case.with_workload(proposal)
    phase = finding.phase or (case.short() or case.estimate.worst).phase
    as_it_is = cheapest is not None and not cheapest.rules
    part_of_it = cheapest is not None and finding.rule.name in cheapest.rules
    runs = (as_it_is or proposed.estimate.fits()) and starts(proposal) and not part_of_it
    return Price(
        phase=phase,
        before_bytes=case.peak_bytes(phase),
        after_bytes=proposed.peak_bytes(phase),
        worst_before_bytes=case.estimate.worst.peak_bytes,
        worst_after_bytes=proposed.estimate.worst.peak_bytes,
        seconds_before=None if cheapest is None else cheapest.case.time.seconds,
        seconds_after=proposed.time.seconds if runs else None,
        change=None if cheapest is None or not runs else cheapest.case.change(proposal),
    )


@lru_cache(maxsize=256)  # the job that others are compared with is one and the same
def shortage(case: Case) -> tuple[int, int, bool, int]:
    """How much memory is missing: in the worst phase, to start at all and as expected, in all phases."""
    over = [case.missing_bytes(phase) for phase in case.phases]
    return max(over), len(case.problems), not starts(case.workload), sum(over)


def is_worse(before: Case, after: Case) -> bool:
    """Whether a job has less memory left where that is short, or takes noticeably longer."""
    if shortage(after) != shortage(before):
        return shortage(after) > shortage(before)
    return before.slower(after.workload) or not before.affords(after.workload)


def helps(case: Case, finding: Finding, proposal: Workload) -> bool:
    """Whether a proposal serves its rule's goal without breaking what fits."""
    if finding.rule.goal is Goal.CORRECTNESS:
        return True
    proposed = case.with_workload(proposal)
    if finding.rule.goal is Goal.TIME:
        return case.faster(proposal) and case.affords(proposal)
    if not case.affords(proposal) and shortage(proposed) >= shortage(case):
        return False
    phase = finding.phase or case.estimate.worst.phase
    before, after = case.peak_bytes(phase), proposed.peak_bytes(phase)
    if after != before:
        return after < before
    faster = proposed.time.seconds < case.time.seconds
    return faster or proposed.host_bytes < case.host_bytes


def rank(case: Case, finding: Finding, workload: Workload | None = None) -> tuple[float, ...]:
    """Errors first; what saves memory while it is short; warnings; then by gain in time.

    Args:
        case: the job.
        finding: about it.
        workload: what a check of time, which has no proposal of its own, would set.
    """
    if finding.severity is Severity.ERROR:
        return (0,)
    saved, gain = 0, 0.0
    proposal = workload if finding.rule.goal is Goal.TIME else None
    proposal = finding.proposal if finding.proposal is not None else proposal
    if proposal is not None and case.time.seconds:
        proposed = case.with_workload(proposal)
        phase = finding.phase or case.estimate.worst.phase
        saved = case.peak_bytes(phase) - proposed.peak_bytes(phase)
        gain = (case.time.seconds - proposed.time.seconds) / case.time.seconds
    if finding.rule.goal is Goal.MEMORY and case.short() is not None and saved > 0:
        return (1, -saved)
    return (2 if finding.severity is Severity.WARNING else 3, -max(0.0, gain))
