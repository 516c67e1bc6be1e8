"""The job with a change beside the block: with all of it, with nothing, or with the lines that go with it."""

from collections.abc import Sequence

from msgspec import Struct

from tuner.advise.answer import Advice, Combination, Recommendation
from tuner.advise.differences import changes, merged
from tuner.advise.merge import goes_together
from tuner.rules.case import Case


class PartOfBlock(Struct, frozen=True, kw_only=True):
    """A job with a change and a part of the block."""

    case: Case
    kept: tuple[str, ...]  # codes of the block's findings that stay
    left: tuple[str, ...]  # of those for which there is no room, or that cost more than they save then


def beside_block(item: Recommendation, advice: Advice) -> PartOfBlock | None:
    """The change with what of the block goes with it; None where nothing does, or the job needs what is left.

    What saves most comes first. A part that is priced with others alone is not among the proposals by itself,
    and is left.
    """
    block, case = advice.combination, without_block([item], advice)
    if block is None or case is None:
        return None
    taken, left = [item], []
    for code in dict.fromkeys(part.finding.rule.code for part in block.contributions):
        own = [one for one in advice.recommendations if one.finding.rule.code == code and _is_in(one, block)]
        if own and all(one.workload is None for one in own):
            continue  # it changes nothing that is modelled
        further = without_block([*taken, *own], advice) if own else None
        if further is None or further.time.seconds >= case.time.seconds:
            if any(part.needed for part in block.contributions if part.finding.rule.code == code):
                return None
            left.append(code)
            continue
        taken, case = [*taken, *own], further
    kept = tuple(dict.fromkeys(one.finding.rule.code for one in taken[1:]))
    return PartOfBlock(case=case, kept=kept, left=tuple(left)) if kept and left else None


def _is_in(item: Recommendation, block: Combination) -> bool:
    """Whether the block has the lines of a proposal as they are, not others of its kind."""
    return not item.yours and bool(item.overrides) and set(item.overrides) <= set(block.overrides)


def with_block(item: Recommendation, advice: Advice) -> Case | None:
    """The job with the block and a change that is no part of it; None where the two do not go together."""
    if advice.combination is None or item.workload is None:
        return None
    block = Case.of(advice.combination.workload, headroom=advice.headroom)
    both = block.with_workload(merged(block.workload, changes(advice.workload, item.workload)))
    return both if goes_together(both.workload) and block.affords(both.workload) else None


def without_block(items: Sequence[Recommendation], advice: Advice) -> Case | None:
    """The job with several changes and nothing of the block; None where they do not go together."""
    case = Case.of(advice.workload, headroom=advice.headroom)
    workload = case.workload
    for item in items:
        if item.workload is not None:
            workload = merged(workload, changes(case.workload, item.workload))
    return case.with_workload(workload) if goes_together(workload) and case.affords(workload) else None
