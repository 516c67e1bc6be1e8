"""What each finding behind a block puts into it, and what the job would be with everything else."""

from msgspec.structs import replace

from tuner.advise.answer import Contribution, Without
from tuner.advise.block import Block, as_read
from tuner.advise.differences import merged
from tuner.advise.merge import Accepted, without_each
from tuner.advise.numerics import numerics
from tuner.advise.reading import Reading
from tuner.rules.case import Case
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
            parts.append(_contribution(part, own, block.case, without))
    parts.sort(key=lambda part: (part.needed, part.without.seconds if part.without else 0.0), reverse=True)
    if unclaimed and parts:  # what only several findings together take
        parts[0] = replace(parts[0], overrides=(*parts[0].overrides, *unclaimed))
    return parts


def _contribution(part: Accepted, own: tuple[str, ...], case: Case, without: Case | None) -> Contribution:
    before = case if without is None else without
    return Contribution(
        finding=part.finding,
        overrides=own,
        without=figures_of(without),
        host_bytes=case.host_bytes - before.host_bytes,
        numerics=numerics(part.finding, before.workload, case.workload),
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
