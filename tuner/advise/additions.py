"""What a package would bring on top of the block: a change that needs it where the job runs."""

from collections.abc import Iterator

from msgspec.structs import replace

from tuner.advise.acceptance import Acceptance, gain
from tuner.advise.answer import Addition, Combination
from tuner.advise.block import errors
from tuner.advise.merge import asked_again, goes_together
from tuner.advise.numerics import numerics
from tuner.advise.reading import Reading
from tuner.advise.refusals import Started
from tuner.findings import Finding
from tuner.rules.case import Case


def additions(
    started: Started, case: Case, combination: Combination | None, acceptance: Acceptance
) -> Iterator[Addition]:
    """What each package brings to the job with its block, or to the job as it is where there is none.

    Args:
        started: the configuration that starts.
        case: the job of that configuration.
        combination: its block.
        acceptance: what a change has to be; here it may need a package.
    """
    reading = started.reading
    if not started.starts:
        return
    if combination is not None:
        reading, case = reading.adding(combination.overrides), case.with_workload(combination.workload)
    if not case.estimate.fits_for_certain():
        return
    for finding in asked_again(case):
        if finding.rule.package and not finding.rule.yours:
            addition = _addition(reading, case, finding, replace(acceptance, packages=True))
            if addition is not None:
                yield addition


def _addition(reading: Reading, case: Case, finding: Finding, acceptance: Acceptance) -> Addition | None:
    """What one finding adds as it reads back; None where that is not worth a line, or not to be pasted."""
    if finding.proposal is None:
        return None
    try:
        overrides = reading.write(finding.proposal).overrides
        after = reading.adding(overrides)
    except ValueError:
        return None
    added = case.with_workload(after.workload)
    effect = numerics(finding, case.workload, after.workload, elsewhere=acceptance.elsewhere)
    wanted = (
        overrides
        and acceptance.accepts(finding, effect)
        and gain(added, case) >= acceptance.least_gain
        and case.affords(after.workload)
        and goes_together(after.workload)
        and errors(after, added) <= errors(reading, case)
    )
    if not wanted:
        return None
    return Addition(
        package=finding.rule.package,
        finding=finding,
        overrides=overrides,
        numerics=effect,
        worst_bytes=added.estimate.worst.peak_bytes,
        seconds_before=case.time.seconds,
        seconds=added.time.seconds,
        change=case.change(after.workload),
    )
