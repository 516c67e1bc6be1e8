"""One JSON object with everything that is known of the review."""

from collections.abc import Iterator

from tuner import __version__
from tuner.errors import Location
from tuner.render.checked.context import RenderContext
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
from tuner.render.checked.wording import Marked, marked, page, path_of
from tuner.render.json_text import escaped, filled, json_text
from tuner.render.words import shown_overrides
from tuner.review.input_findings import Fix, InputFindings, JudgedFor
from tuner.review.review import Review


def parts(review: Review, context: RenderContext) -> Iterator[str]:
    """The review as JSON."""
    totals = review.totals
    report = CheckReport(
        tuner_version=__version__,
        gpu=_gpu(totals.last) if totals.last is not None and len(totals.cards) == 1 else None,
        inputs=(),
        skipped=tuple(map(path_of, review.skipped)),
        findings=(),
        silenced=(),
        unreadable=(),
    )
    lists = {
        "inputs": (json_text(_input(checked)) for checked in review.inputs),
        "findings": map(json_text, reported(review)),
        "silenced": map(json_text, _silenced(review)),
        "unreadable": (escaped(problem.message) for problem in review.problems),
    }
    return filled(json_text(report), lists)


def reported(review: Review) -> Iterator[CheckLine]:
    """Every finding that is not silenced, as the published model has it."""
    for checked, findings in marked(review.inputs):
        for found in findings:
            if found.silenced is None:
                yield _line(found, checked)


def _silenced(review: Review) -> Iterator[SilencedLine]:
    if not review.totals.silenced:
        return
    for checked, findings in marked(review.inputs):
        for found in findings:
            if found.silenced is not None:
                yield SilencedLine(
                    finding=_line(found, checked), by=found.silenced.by.value, reason=found.silenced.reason
                )


def _line(found: Marked, checked: InputFindings) -> CheckLine:
    line = found.line
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
        overrides=shown_overrides(finding, line.overrides),
        url=page(finding.rule) or None,
        fingerprint=found.fingerprint,
        fix=None if line.fix is None or line.finding.hides_value else _fix(line.fix),
        no_fix=line.no_fix or None,
    )


def _fix(fix: Fix) -> FixReport:
    edits = tuple(FixEdit(start=edit.start, end=edit.end, text=edit.text) for edit in fix.edits)
    return FixReport(title=fix.title, path=path_of(fix.source), safe=fix.safe, edits=edits)


def _input(checked: InputFindings) -> CheckedInput:
    problem = checked.problem
    if problem is not None:
        place = problem.location
        where = Location(source=path_of(place.source), line=place.line, column=place.column)
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
