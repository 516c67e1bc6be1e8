"""Single changes that each make a job fit, for the block to be tried behind every one of them.

The first remedy that fits is not the best one: what it leaves of the card decides which other changes still
go in. So each is a start of its own, and the fastest finished block counts.
"""

from collections.abc import Iterator, Sequence

from tuner.advise.acceptance import Acceptance
from tuner.advise.differences import changes
from tuner.advise.merge import Accepted, Merged, Realise, goes_together
from tuner.advise.numerics import numerics
from tuner.advise.pricing import shortage
from tuner.findings import Finding
from tuner.rules.batching import micro_batch_too_large, token_budget_too_large
from tuner.rules.case import Case
from tuner.rules.passes import actor_update
from tuner.workload import Workload

_MOST_FINDINGS = 3  # each is a block of its own, with all the work of one
_SIZES = (1, 2, 4)  # the largest of the update's micro-batches that fit, a half of them, a quarter


def ways_to_fit(
    base: Case, findings: Sequence[Finding], acceptance: Acceptance, realise: Realise
) -> Iterator[Merged]:
    """The job behind each change that alone makes it fit; none of a job that fits or cannot start.

    Args:
        base: the job before any change.
        findings: what the rules say of it, best first.
        acceptance: what a change has to be.
        realise: what becomes of a changed workload.
    """
    if base.short() is None or base.problems:
        return
    proposed = [finding for finding in findings if finding.proposal is not None and not finding.rule.yours]
    ways = [way for finding in proposed if (way := _way_by(base, finding, acceptance, realise)) is not None]
    yield from ways[:_MOST_FINDINGS]
    for finding in _fewer_at_once(base):
        way = _way_by(base, finding, acceptance, realise)
        if way is not None and all(way.case.workload != other.case.workload for other in ways):
            yield way


def _way_by(base: Case, finding: Finding, acceptance: Acceptance, realise: Realise) -> Merged | None:
    """The job with what a finding proposes; None where it then does not fit, or that is not accepted."""
    workload = None if finding.proposal is None else realise(finding.proposal)
    if workload is None or workload == base.workload or not _fits(base, workload):
        return None
    effect = numerics(finding, base.workload, workload, elsewhere=acceptance.elsewhere)
    if not acceptance.accepts(finding, effect):
        return None
    if goes_together(base.workload) and not goes_together(workload):
        return None
    part = Accepted(finding=finding, difference=changes(base.workload, workload))
    return Merged(case=base.with_workload(workload), accepted=(part,))


def _fits(base: Case, workload: Workload) -> bool:
    return not any(shortage(base.with_workload(workload)))


def _fewer_at_once(base: Case) -> Iterator[Finding]:
    """Smaller micro-batches of the update, which leave fewer freed blocks as well, the largest first."""
    short, site = base.short(), actor_update(base.workload)
    sizes = site.smaller_sizes(base.workload)
    if short is None or not sizes:
        return
    largest = base.largest(
        sizes, lambda size: site.resized(base.workload, size), accept=lambda other: _fits(base, other)
    )
    if largest is None:
        return
    rule = token_budget_too_large if site.dynamic else micro_batch_too_large
    smaller = (max((size for size in sizes if size * part <= largest), default=None) for part in _SIZES)
    for size in dict.fromkeys(size for size in smaller if size is not None):
        yield rule.lowered(base, site.resized(base.workload, size), short.phase)
