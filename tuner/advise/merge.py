"""Proposals merged one after the other, as long as each makes the job better."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tuner import rules
from tuner.advise.acceptance import Acceptance, gain
from tuner.advise.differences import Changes, changes, merged, without_idle_sizes
from tuner.advise.numerics import numerics
from tuner.advise.pricing import helps, rank, shortage
from tuner.batching import pass_sequences
from tuner.findings import Finding, Goal, Numerics, Severity
from tuner.rules.case import Case
from tuner.rules.rollout_engine import starts
from tuner.workload import Backend, HeadKind, Workload

MOST_ROUNDS = 6  # the rules are asked again at most so often

Realise = Callable[[Workload], "Workload | None"]
"""What the trainer reads from the overrides of a workload; None where it has none for it."""


class Accepted(Struct, frozen=True, kw_only=True):
    """A finding whose changes were merged."""

    finding: Finding
    difference: Changes


class Merged(Struct, frozen=True, kw_only=True):
    """A job with the changes of several findings."""

    case: Case
    accepted: tuple[Accepted, ...]


def merge(
    case: Case,
    findings: Sequence[Finding],
    *,
    start: Merged,
    acceptance: Acceptance,
    realise: Realise,
    wanted: Callable[[Case, Case, Finding], bool],
) -> Merged:
    """Merge what findings propose, and ask the rules again about the result until they have nothing to add.

    Args:
        case: the job before any change.
        findings: about the job of ``start``, best first.
        start: what was merged before.
        acceptance: what a change has to be.
        realise: what becomes of a merged workload.
        wanted: whether a change from one case to another is worth it for a finding.
    """
    current, accepted = start.case, list(start.accepted)
    terms = _Terms(acceptance=acceptance, realise=realise, wanted=wanted)
    for _ in range(MOST_ROUNDS):
        before = current
        for finding in findings:
            change = _merged_change(finding, before, current, terms)
            if change is not None:
                current, part = change
                accepted.append(part)
        if current is before:
            break
        findings = asked_again(current)
    realised = realise(without_idle_sizes(case.workload, changes(case.workload, current.workload)))
    return Merged(
        case=current if realised is None else case.with_workload(realised), accepted=tuple(accepted)
    )


class _Terms(Struct, frozen=True, kw_only=True):
    """On which a change is merged, as :func:`merge` says."""

    acceptance: Acceptance
    realise: Realise
    wanted: Callable[[Case, Case, Finding], bool]

    def effect(self, finding: Finding, before: Workload, after: Workload) -> Numerics:
        """What a finding's change does to the training."""
        return numerics(finding, before, after, elsewhere=self.acceptance.elsewhere)


def _merged_change(
    finding: Finding, before: Case, current: Case, terms: _Terms
) -> tuple[Case, Accepted] | None:
    """The current job with what a finding about an earlier one proposes; None where that is not wanted."""
    if finding.proposal is None or finding.rule.yours:
        return None
    difference = changes(before.workload, finding.proposal)
    workload = terms.realise(merged(current.workload, difference))
    if workload is None or workload == current.workload:
        return None
    if not terms.acceptance.accepts(finding, terms.effect(finding, current.workload, workload)):
        return None
    if goes_together(current.workload) and not goes_together(workload):
        return None  # both are right alone; the next round finds what is right with the first
    candidate = current.with_workload(workload)
    if terms.wanted(current, candidate, finding):
        also = changes(current.workload, workload)  # a key may set more than was proposed
        return candidate, Accepted(finding=finding, difference={**difference, **also})
    again = _with_less_room(finding, current, candidate) if current is not before else None
    return None if again is None else _merged_change(again, current, current, terms)


def _with_less_room(finding: Finding, current: Case, candidate: Case) -> Finding | None:
    """What a rule says where another change took the room of its proposal, which would have been faster.

    It is asked at once: in the next round what it proposes may be worth less beside what went in instead.
    """
    faster = candidate.time.seconds < current.time.seconds
    if finding.rule.goal is not Goal.TIME or not faster or current.affords(candidate.workload):
        return None
    return rules.finding_of(current, finding.rule)


def retraced(original: Case, whole: Merged, realise: Realise) -> Merged:
    """A merged job made anew, each finding with all that its changes become; none that changes nothing."""
    case, accepted = original, list[Accepted]()
    for part in whole.accepted:
        workload = realise(merged(case.workload, part.difference))
        if workload is not None and workload != case.workload:
            difference = {**part.difference, **changes(case.workload, workload)}
            accepted.append(Accepted(finding=part.finding, difference=difference))
            case = case.with_workload(workload)
    return Merged(case=case, accepted=tuple(accepted))


def better(current: Case, candidate: Case, finding: Finding) -> bool:
    """Whether a change is worth keeping: memory first where it is short, then the rule's goal."""
    missing, left = shortage(current), shortage(candidate)
    if missing != left:
        return left < missing
    if not current.affords(candidate.workload):
        return False
    if finding.rule.goal is Goal.CORRECTNESS:
        return not current.slower(candidate.workload)
    return candidate.time.seconds < current.time.seconds


def frees(current: Case, candidate: Case, finding: Finding) -> bool:
    """Whether a change that is made for memory leaves less of it missing."""
    return finding.rule.goal is not Goal.TIME and shortage(candidate) < shortage(current)


def divides(workload: Workload) -> bool:
    """Whether fixed micro-batches divide a rank's mini-batch, which trainers insist on."""
    return all(
        update.batching.dynamic
        or pass_sequences(workload.batch, update) % update.batching.micro_batch_sequences == 0
        for update in workload.passes()
        if update.training
    )


def goes_together(workload: Workload) -> bool:
    """Whether nothing in a job that is right alone is wrong beside the rest.

    Micro-batches divide what they cut, and fused layers stand beside no fused head, which some releases
    break. Nor does a fused head of the trainer's stand beside a projection that FSDP2 shards by itself.
    """
    engine, head = workload.actor.engine, workload.actor.head.kind
    both = engine.fused_layers and engine.backend is not Backend.MEGATRON and head is not HeadKind.LOGITS
    in_shards = engine.separate_embedding_units and head not in (HeadKind.LOGITS, HeadKind.FUSED_TUNER)
    return divides(workload) and not both and not in_shards


def asked_again(current: Case) -> list[Finding]:
    """What the rules propose about a merged workload, best first."""
    findings = [
        finding
        for finding in rules.run(current)
        if finding.proposal is not None and helps(current, finding, finding.proposal)
    ]
    return sorted(findings, key=lambda finding: rank(current, finding))


def pruned(
    original: Case,
    whole: Merged,
    realise: Realise,
    *,
    least_gain: float,
    short_enough: Callable[[Workload], bool] = lambda workload: True,
) -> Merged:
    """A merged job without the changes that are not worth a line, the least first.

    An error's change stays, and so does what the job needs: without it less memory is left where that is
    short. Another has to bring its share of the step, and the dearest are left where there are too many.

    Args:
        original: the job before any change.
        whole: the job with all of them.
        realise: what becomes of a merged workload.
        least_gain: share of the step that a change has to take away.
        short_enough: whether a workload takes no more lines than a block may have.
    """
    case, accepted = whole.case, remaining_findings(original, whole)
    while True:
        without = [(_without(original, case, part, accepted, realise), part) for part in accepted]
        gains = [
            (gain(case, other), place, other)
            for place, (other, part) in enumerate(without)
            if other is not None
            and part.finding.severity is not Severity.ERROR
            and other.workload != case.workload  # else it follows from the others
        ]
        enough = short_enough(case.workload)
        spared = [
            (share, place)
            for share, place, other in gains
            if (share < least_gain or not enough) and can_do_without(original, case, other)
        ]
        if not spared:
            return Merged(case=case, accepted=tuple(accepted))
        _, place = min(spared)
        smaller = without[place][0]
        assert smaller is not None
        case = smaller
        accepted = remaining_findings(original, Merged(case=case, accepted=tuple(accepted)))


def can_do_without(original: Case, case: Case, without: Case) -> bool:
    """Whether a job needs a change neither to start nor to fit.

    What the original leaves free of the card is enough for a job that fits for certain.
    """
    if shortage(without) <= shortage(case) and case.affords(without.workload):
        return True
    fits = without.estimate.fits_for_certain() and starts(without.workload)
    return fits and original.affords(without.workload)


def remaining_findings(original: Case, whole: Merged) -> list[Accepted]:
    """The findings whose changes are left in the end, each with those that are its own; the last one owns."""
    left = changes(original.workload, whole.case.workload)
    owned: dict[int, dict[tuple[str, ...], object]] = {}
    for path, value in left.items():
        places = [
            place
            for place, part in enumerate(whole.accepted)
            if path in part.difference and part.difference[path] == value
        ]
        if places:
            owned.setdefault(places[-1], {})[path] = value
    return [
        Accepted(finding=whole.accepted[place].finding, difference=difference)
        for place, difference in sorted(owned.items())
    ]


def _without(
    original: Case, case: Case, part: Accepted, accepted: Sequence[Accepted], realise: Realise
) -> Case | None:
    """The job without the changes of one finding; None where nothing can be read as that."""
    left = changes(original.workload, case.workload)
    rest = {path: value for path, value in left.items() if path not in part.difference}
    workload = realise(without_idle_sizes(original.workload, rest))
    if workload is None or (divides(case.workload) and not divides(workload)):
        return None
    return case.with_workload(workload)


def less_one(original: Case, whole: Merged, realise: Realise) -> Iterator[Merged]:
    """The merged job without the changes of one finding, for each of them."""
    for _, case in without_each(original, whole, realise):
        if case is not None:
            yield Merged(case=case, accepted=tuple(remaining_findings(original, replace(whole, case=case))))


def without_each(original: Case, whole: Merged, realise: Realise) -> list[tuple[Accepted, Case | None]]:
    """For each finding, the job with all changes but its own; None where the others rest on it."""
    return [(part, _without(original, whole.case, part, whole.accepted, realise)) for part in whole.accepted]
