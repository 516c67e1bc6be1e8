"""The block without lines that change nothing, and without findings that made room for such a line."""

from collections.abc import Sequence

from msgspec.structs import replace

from tuner.advise.answer import Contribution
from tuner.advise.block import Block, errors
from tuner.advise.idle_lines import OwnLines, may_be_idle, needed, serves
from tuner.advise.merge import Merged, remaining_findings
from tuner.advise.pricing import is_worse
from tuner.advise.reading import Reading
from tuner.advise.verdicts import judge_memory
from tuner.findings import Severity
from tuner.rules.case import Case
from tuner.workload import Workload


def block_of_needed(
    reading: Reading, base: Case, block: Block, parts: Sequence[Contribution]
) -> Block | None:
    """A block without the lines that change nothing; None where it has none, or where it may then not fit.

    Args:
        reading: the configuration before it.
        base: its job.
        block: proposals that were merged.
        parts: its findings, each with its lines.
    """
    several = [
        OwnLines(finding=part.finding, overrides=part.overrides)
        for part in parts
        if len(part.overrides) > 1 and part.finding.proposal is not None
    ]
    kept = needed(reading, base, block.overrides, several)
    if kept == block.overrides:
        return None
    kept = _without_idle_findings(reading, base, block, kept, parts)
    after = reading.adding(kept)
    case = base.with_workload(after.workload)
    if not errors(after, case) <= errors(block.reading, block.case):
        return None
    if reading.serving_releases(kept, lambda before, changed: _serves_there(base, before, changed)):
        return None
    if (
        judge_memory(case, after.releases).verdict
        is not judge_memory(block.case, block.reading.releases).verdict
    ):
        return None
    merged = Merged(case=case, accepted=tuple(remaining_findings(base, replace(block.merged, case=case))))
    return Block(merged=merged, overrides=kept, reading=after, case=case)


def _without_idle_findings(
    reading: Reading, base: Case, block: Block, kept: tuple[str, ...], parts: Sequence[Contribution]
) -> tuple[str, ...]:
    """The lines without the last ones of findings that only made room for a line that is left out."""
    for part in parts:
        own = [text for text in part.overrides if text in kept]
        if part.finding.proposal is None or part.finding.severity is Severity.ERROR or len(own) != 1:
            continue
        rest = tuple(text for text in kept if text not in own)
        if may_be_idle(own[0]) and serves(rest, block.reading, reading, base, part.finding):
            kept = rest
    return kept


def _serves_there(base: Case, before: Workload, changed: Workload) -> bool:
    """Whether a block makes the job of another release no worse."""
    return not is_worse(Case.of(before, headroom=base.headroom), base.with_workload(changed))
