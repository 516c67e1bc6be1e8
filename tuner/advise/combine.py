"""Everything together: repairs, fixes and proposals as one block, judged as it is read back."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tuner.advise.acceptance import MOST_LINES, Acceptance
from tuner.advise.answer import Combination, Contribution, Recommendation
from tuner.advise.block import Block, best_block, errors
from tuner.advise.contributions import contributions, figures_of
from tuner.advise.differences import Changes, changes, merged
from tuner.advise.merge import Merged, asked_again, frees, merge
from tuner.advise.pricing import Cheapest, is_worse, shortage
from tuner.advise.reading import Reading
from tuner.advise.refusals import Refusal, Started, verdict_of_start
from tuner.advise.verdicts import Verdict, judge_memory
from tuner.findings import Finding, Numerics, Severity
from tuner.override_text import ADDS, DELETES, override_key
from tuner.rules.case import Case
from tuner.rules.rollout_engine import starts


def cheapest_run(case: Case, findings: Sequence[Finding], *, runs: bool) -> Cheapest | None:
    """The job as it is where it ``runs``, else with the least that makes it fit; None where nothing does."""
    if runs:
        return Cheapest(case=case, rules=())
    nothing = Merged(case=case, accepted=())
    anything = Acceptance(allow=tuple(Numerics), least_gain=0, packages=True)
    smaller = merge(case, findings, start=nothing, acceptance=anything, realise=lambda job: job, wanted=frees)
    if not smaller.case.estimate.fits() or not starts(smaller.case.workload):
        return None
    names = dict.fromkeys(part.finding.rule.name for part in smaller.accepted)
    return Cheapest(case=smaller.case, rules=tuple(names))


def combine(
    started: Started,
    case: Case,
    ranked: Sequence[Recommendation],
    *,
    cheapest: Cheapest | None,
    acceptance: Acceptance,
) -> Combination | None:
    """The block: what lifts refusals, what fixes silent errors, and proposals merged round by round.

    It is judged as the trainer reads it. Where that is not the job that was proposed, each step is taken
    again as it reads back. A block that is then no better, that brings a new error, or of which memory says
    anything else than that the job fits, is not offered. As with the job, a refusal comes before memory.
    Changes that need a package are part of it only where the job does not fit without them.

    Args:
        started: the configuration that starts.
        case: the job of that configuration.
        ranked: recommendations about it, best first.
        cheapest: what the block's seconds are compared with.
        acceptance: what a change has to be to go into it.
    """
    if not started.starts:
        return None
    reading, fixes = _with_fixes(started.reading, case, ranked)
    lifted = [_mended(item) for item in started.refusals if item.lifted_by_block and item.overrides]
    base = case.with_workload(reading.workload)
    findings = [item.finding for item in ranked] if base.workload == case.workload else asked_again(base)
    mended = sum(len(part.overrides) for part in lifted) + sum(len(fix.item.overrides) for fix in fixes)
    verdict = verdict_of_start([item for item in started.refusals if not item.lifted_by_block], Verdict.FITS)
    for wanted in (acceptance, replace(acceptance, packages=True)):
        block = best_block(reading, base, findings, wanted, most_lines=MOST_LINES - mended)
        brought = contributions(reading, base, block)
        fewer = _without_idle_lines(reading, base, block, brought, wanted)
        if fewer is not None:
            block, brought = fewer, contributions(reading, base, fewer)
        of_memory = judge_memory(block.case, block.reading.releases)
        fixed = (_contribution_of_fix(fix, block.case) for fix in fixes)
        parts = [*lifted, *fixed, *brought]
        if of_memory.verdict is Verdict.FITS:
            return _combination(block, parts, cheapest, verdict) if parts else None
        if not any(finding.rule.package for finding in findings):
            break
    return None


def _without_idle_lines(
    reading: Reading, base: Case, block: Block, parts: Sequence[Contribution], acceptance: Acceptance
) -> Block | None:
    """The block without the lines that change nothing; None where it has none, or one makes room for more.

    A finding with one line is worth that line, else it would be no part of the block.
    """
    if all(len(part.overrides) < 2 for part in parts):
        return None
    from tuner.advise.needed_lines import block_of_needed  # where a finding sets several lines

    fewer = block_of_needed(reading, base, block, parts)
    if fewer is None:
        return None
    room = MOST_LINES - len(fewer.overrides)
    more = best_block(fewer.reading, fewer.case, asked_again(fewer.case), acceptance, most_lines=room)
    return None if more.overrides else fewer


def _combination(
    block: Block, parts: Sequence[Contribution], cheapest: Cheapest | None, verdict: Verdict
) -> Combination:
    """A block with which the job fits, its lines in the order of what they bring."""
    return Combination(
        overrides=one_per_key([text for part in parts for text in part.overrides]),
        contributions=tuple(parts),
        verdict=verdict,
        workload=block.case.workload,
        estimate=block.case.estimate,
        time=block.case.time,
        change=None if cheapest is None else cheapest.case.change(block.case.workload),
    )


class _Fix(Struct, frozen=True, kw_only=True):
    """What a check would set, and the fields that leaving it out would change."""

    item: Recommendation
    undone: Changes


def _mended(item: Refusal | Recommendation) -> Contribution:
    """What puts a setting right, as part of the block."""
    return Contribution(finding=item.finding, overrides=item.overrides, numerics=item.numerics)


def _contribution_of_fix(fix: _Fix, block: Case) -> Contribution:
    """A check's fix as part of the block, with what the job would be without it where it then may not fit."""
    part = _mended(fix.item)
    if fix.item.finding.severity is Severity.ERROR:
        return part
    without = figures_of(block.with_workload(merged(block.workload, fix.undone)))
    needed = replace(part, without=without)
    return needed if needed.needed else part


def _with_fixes(reading: Reading, case: Case, ranked: Sequence[Recommendation]) -> tuple[Reading, list[_Fix]]:
    """The configuration with what fixes silent errors and makes the job no worse.

    A milder check counts as well where the job may not fit and what it fixes takes memory that is missing.
    """
    fixes: list[_Fix] = []
    for item in ranked:
        if item.finding.proposal is not None or item.yours or not item.overrides:
            continue
        try:
            after = reading.adding(item.overrides)
        except ValueError:
            continue
        before, changed = case.with_workload(reading.workload), case.with_workload(after.workload)
        milder = not before.estimate.fits_for_certain() and shortage(changed) < shortage(before)
        lifts = item.finding.severity is Severity.ERROR or milder
        if lifts and errors(after, changed) <= errors(reading, before) and not is_worse(before, changed):
            fixes.append(_Fix(item=item, undone=changes(after.workload, reading.workload)))
            reading = after
    return reading, fixes


def one_per_key(overrides: Sequence[str]) -> tuple[str, ...]:
    """The overrides with the last value of every key; one that a key needed to be added stays an addition."""
    last: dict[str, str] = {}
    for text in overrides:
        key = override_key(text)
        added = last.pop(key, "").startswith(ADDS) and not text.startswith((ADDS, DELETES))
        last[key] = f"+{text}" if added else text
    return tuple(last.values())
