"""What each finding behind a block puts into it, and what the job would be with everything else."""

from collections.abc import Collection

from msgspec.structs import replace

from tuner.advise.acceptance import gain
from tuner.advise.answer import Contribution, Without
from tuner.advise.block import Block, as_read, errors
from tuner.advise.differences import merged
from tuner.advise.merge import Accepted, divides, without_each
from tuner.advise.numerics import numerics
from tuner.advise.reading import Reading
from tuner.rules.case import LEAST_GAIN, Case
from tuner.rules.rollout_engine import starts
from tuner.workload import Workload


def contributions(reading: Reading, base: Case, block: Block) -> list[Contribution]:
    """What each accepted finding brings, and the overrides that are its own; what the job needs comes first.

    Args:
        reading: the configuration before the block.
        base: its job.
        block: proposals that were merged.
    """
    parts, unclaimed = list[Contribution](), list(block.overrides)
    for part, without in without_each(base, block.merged, as_read(reading)):
        alone = _overrides(reading, merged(base.workload, part.difference))
        rest = None if without is None else _overrides(reading, without.workload)
        own = tuple(text for text in unclaimed if text in alone or (rest is not None and text not in rest))
        unclaimed = [text for text in unclaimed if text not in own]
        if own:
            priced = without is not None or part.finding.proposal is None
            left = without if priced else _left_out(reading, block, own)
            parts.append(_contribution(part, own, block, left))
    parts.sort(key=lambda part: (part.needed, part.without.seconds if part.without else 0.0), reverse=True)
    if unclaimed and parts:  # what only several findings together take
        parts[0] = replace(parts[0], overrides=(*parts[0].overrides, *unclaimed))
    return parts


def _left_out(reading: Reading, block: Block, own: Collection[str]) -> Case | None:
    """The job with the block's other lines, as the trainer reads it; None where they rest on these.

    So they do where the job is wrong without these, and where these bring nothing by themselves.
    It may be one that no proposal describes: without a change that takes the reference away, what others
    change of the reference is there again.
    """
    try:
        rest = reading.adding(tuple(text for text in block.overrides if text not in own))
    except ValueError:
        return None
    case = block.case.with_workload(rest.workload)
    more = errors(rest, case) - errors(reading, block.case.with_workload(reading.workload))
    rests = more or not divides(rest.workload) or gain(block.case, case) < LEAST_GAIN
    return None if rests else case


def _contribution(part: Accepted, own: tuple[str, ...], block: Block, without: Case | None) -> Contribution:
    case, elsewhere = block.case, block.reading.averages_elsewhere
    before = case if without is None else without
    return Contribution(
        finding=part.finding,
        overrides=own,
        without=figures_of(without),
        host_bytes=case.host_bytes - before.host_bytes,
        numerics=numerics(part.finding, before.workload, case.workload, elsewhere=elsewhere),
    )


def _overrides(reading: Reading, workload: Workload) -> tuple[str, ...]:
    """The overrides of a workload; none where the configuration is that already, or has no keys for it."""
    if workload == reading.workload:
        return ()
    try:
        return reading.write(workload).overrides
    except ValueError:
        return ()


def figures_of(case: Case | None) -> Without | None:
    """What a contribution's absence would come to; None where the others rest on it."""
    if case is None:
        return None
    worst = case.estimate.worst.peak_bytes
    return Without(
        worst_bytes=worst,
        seconds=case.time.seconds,
        fits=case.estimate.fits(),
        starts=starts(case.workload),
        certain=case.estimate.fits_for_certain(),
    )
