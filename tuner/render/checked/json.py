"""One JSON object with everything that is known of the review."""

from collections.abc import Iterator

from tuner import __version__
from tuner.render.checked.how import How
from tuner.render.checked.report import (
    CheckedGpu,
    CheckedInput,
    CheckedPhase,
    CheckLine,
    CheckReport,
    FixEdit,
    FixReport,
    JudgedForReport,
    SilencedLine,
)
from tuner.render.checked.wording import fingerprints, page, path_of
from tuner.render.json_text import json_text
from tuner.render.report import Place
from tuner.review.checked import Checked, Fix, JudgedFor, Line, Review


def rendered(review: Review, how: How) -> str:
    """The review as JSON."""
    return json_text(check_report(review))


def check_report(review: Review) -> CheckReport:
    """The review as the published model has it."""
    by_line = {id(line): found for line, found in check_lines(review)}
    cards = {checked.judged_for.gpu: checked.judged_for for checked in review.inputs if checked.judged_for}
    return CheckReport(
        tuner_version=__version__,
        gpu=_gpu(next(iter(cards.values()))) if len(cards) == 1 else None,
        inputs=tuple(map(_input, review.inputs)),
        skipped=tuple(map(path_of, review.skipped)),
        findings=tuple(by_line[id(line)] for line in review.lines),
        silenced=tuple(
            SilencedLine(finding=by_line[id(silenced.line)], by=silenced.by.value, reason=silenced.reason)
            for checked in review.inputs
            for silenced in checked.silenced
        ),
        unreadable=tuple(problem.message for problem in review.problems),
    )


def check_lines(review: Review) -> Iterator[tuple[Line, CheckLine]]:
    """Every finding, with those that are silenced, as the published model has it."""
    for number, line, fingerprint in fingerprints(review):
        yield line, _line(line, review.inputs[number], fingerprint)


def _line(line: Line, checked: Checked, fingerprint: str) -> CheckLine:
    place, finding = line.location, line.finding
    return CheckLine(
        input=path_of(checked.source),
        path=path_of(place.source),
        line=place.line or 1,
        column=place.column or 1,
        end_column=None if line.excerpt is None else line.excerpt.end + 1,
        severity=finding.severity,
        code=finding.rule.code,
        name=finding.rule.name,
        message=finding.message,
        notes=finding.notes,
        evidence=finding.evidence,
        key=line.key or None,
        origin=line.origin or None,
        overrides=line.overrides,
        url=page(finding.rule) or None,
        fingerprint=fingerprint,
        fix=None if line.fix is None else _fix(line.fix),
        no_fix=line.no_fix or None,
    )


def _fix(fix: Fix) -> FixReport:
    edits = tuple(FixEdit(start=edit.start, end=edit.end, text=edit.text) for edit in fix.edits)
    return FixReport(title=fix.title, path=path_of(fix.source), safe=fix.safe, edits=edits)


def _input(checked: Checked) -> CheckedInput:
    problem = checked.problem
    if problem is not None:
        place = problem.location
        where = Place(source=path_of(place.source), line=place.line, column=place.column)
        return CheckedInput(source=path_of(checked.source), unreadable=problem.message, location=where)
    judged_for = None if checked.judged_for is None else _judged_for(checked.judged_for)
    return CheckedInput(
        source=path_of(checked.source),
        judged_for=judged_for,
        gpus=checked.gpus,
        phases=tuple(
            CheckedPhase(
                phase=phase.phase,
                peak_bytes=phase.peak_bytes,
                low_bytes=phase.low_bytes,
                high_bytes=phase.high_bytes,
                seconds=phase.seconds,
                low_s=phase.low_s,
                high_s=phase.high_s,
            )
            for phase in checked.phases
        ),
        step_s=checked.step_s,
        low_s=checked.low_s,
        high_s=checked.high_s,
    )


def _judged_for(judged: JudgedFor) -> JudgedForReport:
    return JudgedForReport(
        trainer=judged.trainer,
        release=judged.release,
        release_reason=judged.release_reason,
        engine=judged.engine,
        engine_reason=judged.engine_reason,
        gpu=_gpu(judged),
    )


def _gpu(judged: JudgedFor) -> CheckedGpu:
    return CheckedGpu(
        name=judged.gpu, memory_bytes=judged.gpu_bytes, reason=judged.gpu_reason, assumed=judged.gpu_assumed
    )
