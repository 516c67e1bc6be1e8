"""One proposal: its price, whether it pays, and where it ranks."""

from tuner.advise.answer import OverrideWriter, Price, Recommendation
from tuner.findings import Finding, Goal, Severity
from tuner.rules.case import Case
from tuner.workload import Workload


def recommend(case: Case, finding: Finding, write_overrides: OverrideWriter) -> Recommendation | None:
    """A finding with its price, None when it does not pay or cannot be written."""
    if finding.proposal is None:
        return Recommendation(finding=finding, overrides=finding.overrides, price=None)
    if not helps(case, finding, finding.proposal):
        return None
    overrides = written(write_overrides, finding.proposal)
    if overrides is None:
        return None
    return Recommendation(
        finding=finding, overrides=overrides, price=price_of(case, finding, finding.proposal)
    )


def price_of(case: Case, finding: Finding, proposal: Workload) -> Price:
    """What a proposal costs or gains in the finding's phase, in the worst one, and in time."""
    proposed = case.other(proposal)
    phase = finding.phase or case.estimate.worst.phase
    return Price(
        phase=phase,
        before_bytes=case.peak_bytes(phase),
        after_bytes=proposed.peak_bytes(phase),
        worst_before_bytes=case.estimate.worst.peak_bytes,
        worst_after_bytes=proposed.estimate.worst.peak_bytes,
        seconds_before=case.time.seconds,
        seconds_after=proposed.time.seconds,
    )


def shortage(case: Case) -> tuple[int, int, int]:
    """How much memory is missing: in the worst phase, to start at all, over all phases."""
    over = [max(0, phase.peak_bytes - case.limit_bytes) for phase in case.estimate.phases]
    return max(over), len(case.estimate.problems), sum(over)


def helps(case: Case, finding: Finding, proposal: Workload) -> bool:
    """Whether a proposal serves its rule's goal without breaking what fits."""
    if finding.rule.goal is Goal.CORRECTNESS:
        return True
    proposed = case.other(proposal)
    faster = proposed.time.seconds < case.time.seconds
    if finding.rule.goal is Goal.TIME:
        return faster and case.affords(proposal)
    if not case.affords(proposal) and shortage(proposed) >= shortage(case):
        return False
    price = price_of(case, finding, proposal)
    if price.after_bytes != price.before_bytes:
        return price.after_bytes < price.before_bytes
    return faster or proposed.estimate.host_bytes < case.estimate.host_bytes


def written(write_overrides: OverrideWriter, proposal: Workload) -> tuple[str, ...] | None:
    """The overrides of a proposal, None where the trainer has no keys for it."""
    try:
        return write_overrides(proposal)
    except ValueError:
        return None


def rank(case: Case, finding: Finding) -> tuple[float, ...]:
    """Errors first; what saves memory while it is short; warnings; then by gain in time."""
    if finding.severity is Severity.ERROR:
        return (0,)
    price = None if finding.proposal is None else price_of(case, finding, finding.proposal)
    saved = 0 if price is None else price.before_bytes - price.after_bytes
    if finding.rule.goal is Goal.MEMORY and case.short() is not None and saved > 0:
        return (1, -saved)
    gain = 0.0 if price is None else (price.seconds_before - price.seconds_after) / price.seconds_before
    return (2 if finding.severity is Severity.WARNING else 3, -max(0.0, gain))
