"""Proposals as one block: merged round by round, without what is not worth a line, and read back."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from tuner import rules
from tuner.advise.acceptance import Acceptance, gain
from tuner.advise.merge import Merged, Realise, asked_again, better, less_one, merge, pruned, retraced
from tuner.advise.pricing import is_worse, shortage
from tuner.advise.reading import Reading
from tuner.findings import Finding, Severity
from tuner.rules.case import Case
from tuner.workload import Workload

_PASSES = 4  # what is left when idle changes are gone may make another one pay


class Block(Struct, frozen=True, kw_only=True):
    """Overrides that were tried as a whole."""

    merged: Merged
    overrides: tuple[str, ...]  # of the proposals
    reading: Reading  # of everything
    case: Case


def errors(reading: Reading, case: Case) -> set[str]:
    """Codes of the errors that checks and rules find in a configuration."""
    findings = (*reading.findings, *rules.run(case))
    return {finding.rule.code for finding in findings if finding.severity is Severity.ERROR}


def best_block(
    reading: Reading, base: Case, findings: Sequence[Finding], acceptance: Acceptance, *, most_lines: int
) -> Block:
    """The best block that reads back as no worse than what it starts from; an empty one if need be.

    Args:
        reading: the configuration before it.
        base: its job.
        findings: what the rules say of that job, best first.
        acceptance: what a change has to be.
        most_lines: of the block, unless the job needs more.
    """
    best = _best_of_all(reading, base, findings, acceptance, most_lines)
    if base.short() is None or base.estimate.fits_for_certain():
        return best
    dearest = _dearest(base, best, acceptance)
    if dearest is None:
        return best
    # What frees most is merged first, and nothing else is due then: without it cheaper changes may do.
    barred = replace(acceptance, barred=acceptance.barred | {dearest.code})
    other = _best_of_all(reading, base, findings, barred, most_lines)
    fit = other.case.estimate.fits_for_certain() and best.case.estimate.fits_for_certain()
    pays = (
        gain(other.case, best.case) >= acceptance.least_gain if fit else _pays_more(other, best, acceptance)
    )
    if not other.overrides or not pays:
        return best
    # Of a job with that block the barred change may be due again, and then it would not be the end.
    left = most_lines - len(other.overrides)
    more = _best_of_all(other.reading, other.case, asked_again(other.case), acceptance, left)
    return best if more.overrides else other


def _dearest(base: Case, block: Block, acceptance: Acceptance) -> Finding | None:
    """The finding of a block that makes the step longest by itself; None where none costs a line's worth."""
    least = base.time.seconds * (1 + acceptance.least_gain)
    costs = [
        (base.with_workload(part.finding.proposal).time.seconds, number)
        for number, part in enumerate(block.merged.accepted)
        if part.finding.proposal is not None
    ]
    seconds, number = max(costs, default=(0.0, 0))
    return block.merged.accepted[number].finding if seconds > least else None


def _best_of_all(
    reading: Reading, base: Case, findings: Sequence[Finding], acceptance: Acceptance, most_lines: int
) -> Block:
    """The best of the blocks that begin with nothing, and with each change that makes the job fit."""
    nothing = Block(merged=Merged(case=base, accepted=()), overrides=(), reading=reading, case=base)

    def merged(realise: Realise, start: Merged, *, begins: bool = False) -> Merged:
        return _merged(reading, base, start, findings, acceptance, most_lines, realise, begins=begins)

    stepwise = as_read(reading)
    as_proposed = merged(lambda job: job, nothing.merged)
    if _read_back(reading, base, as_proposed) is None:
        whole = merged(stepwise, nothing.merged)
        blocks = [
            *_readable(reading, base, as_proposed, lambda job: job),
            *_readable(reading, base, whole, stepwise),
        ]
    else:
        first = retraced(base, as_proposed, stepwise)
        more = merged(stepwise, first)
        blocks = [*_readable(reading, base, first, stepwise), *_readable(reading, base, more, stepwise)]
    best = min((*blocks, nothing), key=_merit)
    if base.short() is None or base.estimate.fits_for_certain():
        return best
    others = _behind_each_way(reading, base, findings, acceptance, partial(merged, begins=True))
    return min((best, *(block for block in others if _pays_more(block, best, acceptance))), key=_merit)


def _behind_each_way(
    reading: Reading,
    base: Case,
    findings: Sequence[Finding],
    acceptance: Acceptance,
    merged: Callable[[Realise, Merged], Merged],
) -> Iterator[Block]:
    """The blocks that begin with another change that makes the job fit, each as it reads back."""
    from tuner.advise.ways_to_fit import ways_to_fit  # where a job is short of memory

    stepwise = as_read(reading)
    for way in ways_to_fit(base, findings, acceptance, stepwise):
        yield from _readable(reading, base, merged(stepwise, way), stepwise)


def _pays_more(block: Block, best: Block, acceptance: Acceptance) -> bool:
    """Whether another block is worth it: with no less memory left the step is shorter by a line's worth."""
    if shortage(block.case) != shortage(best.case):
        return shortage(block.case) < shortage(best.case)
    return gain(block.case, best.case) >= acceptance.least_gain


def as_read(reading: Reading) -> Realise:
    """What a configuration reads from the overrides of a workload."""

    def realise(workload: Workload) -> Workload | None:
        if workload == reading.workload:
            return workload
        try:
            return reading.write(workload).workload
        except ValueError:
            return None

    return realise


def _merged(
    reading: Reading,
    base: Case,
    start: Merged,
    findings: Sequence[Finding],
    acceptance: Acceptance,
    most_lines: int,
    realise: Realise,
    *,
    begins: bool,
) -> Merged:
    """Proposals merged and pruned, until the rules have nothing to add that is worth a line.

    What a finished block leaves is only worth another round where it pays a line by itself; a single change
    that begins one (``begins``) is followed by whatever is better, as no change is.
    """

    def short_enough(workload: Workload) -> bool:
        return len(_lines(reading, workload)) <= most_lines

    def worth_it(current: Case, candidate: Case, finding: Finding) -> bool:
        spares = shortage(candidate) < shortage(current)
        pays = spares or gain(candidate, current) >= acceptance.least_gain
        return pays and better(current, candidate, finding)

    whole, wanted = start, better
    if start.accepted:
        findings = asked_again(start.case)
        wanted = better if begins else worth_it
    for _ in range(_PASSES):
        more = merge(base, findings, start=whole, acceptance=acceptance, realise=realise, wanted=wanted)
        if more.case.workload == whole.case.workload:
            break
        if not _lines(reading, more.case.workload):
            return Merged(case=base, accepted=())  # what cannot be written could push out what can
        before = whole
        whole = pruned(base, more, realise, least_gain=acceptance.least_gain, short_enough=short_enough)
        if whole.case.workload == before.case.workload:
            break  # what was added is not worth a line, and would be added and taken away again
        findings, wanted = asked_again(whole.case), better
    return whole


def _readable(reading: Reading, base: Case, whole: Merged, realise: Realise) -> list[Block]:
    """A merged job as it reads back; without one of its findings each, where that cannot be or is worse."""
    block = _read_back(reading, base, whole)
    if block is not None or whole.case.workload == base.workload:
        return [] if block is None else [block]
    smaller = (_read_back(reading, base, less) for less in less_one(base, whole, realise))
    return [block for block in smaller if block is not None]


def _lines(reading: Reading, workload: Workload) -> tuple[str, ...]:
    try:
        return reading.write(workload).overrides
    except ValueError:
        return ()


def _merit(block: Block) -> tuple[tuple[float, ...], float]:
    """What makes a block better, the lower the better: memory where it is short, then seconds."""
    return shortage(block.case), block.case.time.seconds


def _read_back(reading: Reading, base: Case, whole: Merged) -> Block | None:
    """A merged job as its overrides read back; None where it is worse, or brings an error."""
    if whole.case.workload == base.workload:
        return None
    try:
        overrides = reading.write(whole.case.workload).overrides
        after = reading.adding(overrides)
    except ValueError:
        return None
    case = base.with_workload(after.workload)
    if is_worse(base, case) or not errors(after, case) <= errors(reading, base):
        return None
    return Block(merged=whole, overrides=overrides, reading=after, case=case)
