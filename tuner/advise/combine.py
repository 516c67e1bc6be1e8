"""All proposals together: merged one after the other, as long as each makes the job better."""

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct

from tuner import rules
from tuner.advise.answer import Combination, OverrideWriter, Recommendation
from tuner.advise.differences import Changes, changes, merged, without_idle_sizes
from tuner.advise.pricing import helps, rank, shortage, written
from tuner.batching import pass_sequences
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.rules.case import Case
from tuner.workload import Workload

MOST_ROUNDS = 6  # the rules are asked again at most so often


class _Accepted(Struct, frozen=True, kw_only=True):
    """A rule's changes that were merged."""

    rule: Rule
    difference: Changes


def _better(current: Case, candidate: Case, rule: Rule) -> bool:
    """Whether a merged change is worth keeping: memory first where it is short, then the rule's goal.

    What changes the numbers of the training run beyond rounding is left to the user, unless memory
    is short.
    """
    if candidate.workload == current.workload:
        return False
    if _divides(current.workload) and not _divides(candidate.workload):
        return False  # two proposals that are right alone; the next round finds what is right with the first
    missing, left = shortage(current), shortage(candidate)
    if missing != left:
        return left < missing
    if rule.numerics is Numerics.CHANGED:
        return False
    if rule.goal is Goal.TIME:
        return candidate.time.seconds < current.time.seconds
    return rule.goal is Goal.CORRECTNESS or candidate.time.seconds <= current.time.seconds


def _divides(workload: Workload) -> bool:
    """Whether fixed micro-batches divide a rank's mini-batch, which trainers insist on."""
    return all(
        update.batching.dynamic
        or pass_sequences(workload.batch, update) % update.batching.micro_batch_sequences == 0
        for update in workload.passes()
        if update.training
    )


def combine(
    case: Case,
    ranked: Sequence[Recommendation],
    write_overrides: OverrideWriter,
    ignored: Collection[str],
) -> Combination | None:
    """Merge proposals round by round, until the rules have nothing to add.

    What can be written alone can nearly always be written together, so that is tried first; only if
    it fails is every step checked.
    """
    findings = [recommendation.finding for recommendation in ranked]

    def expressible(other: Workload) -> bool:
        return written(write_overrides, other) is not None

    for check in (None, expressible):
        final, accepted = _merge(case, findings, ignored, check)
        settled = final.workload == case.workload
        overrides = () if settled else written(write_overrides, final.workload)
        if overrides is not None:
            return _combination(final, _responsible(case, final, accepted), overrides, _repairs(ranked))
    return None


def _repairs(ranked: Sequence[Recommendation]) -> dict[str, tuple[str, ...]]:
    """Overrides, by rule, of errors that propose no workload: without them the job would not run."""
    return {
        recommendation.finding.rule.name: recommendation.overrides
        for recommendation in ranked
        if recommendation.finding.severity is Severity.ERROR
        and recommendation.finding.proposal is None
        and recommendation.overrides
    }


def _combination(
    final: Case, names: tuple[str, ...], overrides: tuple[str, ...], repairs: Mapping[str, tuple[str, ...]]
) -> Combination | None:
    """Merged proposals and repairs; a key that a proposal sets is not repaired on top."""
    taken = {_key(override) for override in overrides}
    added = {
        name: tuple(override for override in extra if _key(override) not in taken)
        for name, extra in repairs.items()
    }
    repaired = tuple(name for name, extra in added.items() if extra)
    together = (*overrides, *(override for name in repaired for override in added[name]))
    if not together:
        return None
    return Combination(
        rules=(*names, *repaired),
        overrides=together,
        workload=final.workload,
        estimate=final.estimate,
        time=final.time,
    )


def _key(override: str) -> str:
    return override.lstrip("+~").partition("=")[0]


def _merge(
    case: Case,
    findings: Sequence[Finding],
    ignored: Collection[str],
    check: Callable[[Workload], bool] | None,
) -> tuple[Case, list[_Accepted]]:
    current, accepted = case, list[_Accepted]()
    for _ in range(MOST_ROUNDS):
        before = current
        for finding in findings:
            difference = {} if finding.proposal is None else changes(before.workload, finding.proposal)
            candidate = case.other(merged(current.workload, difference))
            if not _better(current, candidate, finding.rule):
                continue
            if check is not None and not check(candidate.workload):
                continue
            current = candidate
            accepted.append(_Accepted(rule=finding.rule, difference=difference))
        if current is before:
            break
        findings = _asked_again(current, ignored)
    return case.other(without_idle_sizes(case.workload, current.workload)), accepted


def _asked_again(current: Case, ignored: Collection[str]) -> list[Finding]:
    """What the rules propose about a merged workload, best first."""
    findings = [
        finding
        for finding in rules.run(current)
        if finding.rule.name not in ignored
        and finding.proposal is not None
        and helps(current, finding, finding.proposal)
    ]
    return sorted(findings, key=lambda finding: rank(current, finding))


def _responsible(original: Case, final: Case, accepted: Sequence[_Accepted]) -> tuple[str, ...]:
    """The rules whose changes are left in the end."""
    left = changes(original.workload, final.workload)
    names = dict.fromkeys(
        step.rule.name
        for step in accepted
        if any(path in left and left[path] == value for path, value in step.difference.items())
    )
    return tuple(names)
