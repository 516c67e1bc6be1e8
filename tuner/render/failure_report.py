"""The JSON of an explained out-of-memory error."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from tuner import __version__
from tuner.advise.allocation import Standing
from tuner.advise.card import CardUse
from tuner.advise.needs import Measure
from tuner.advise.remedies import Remedy
from tuner.consultation.failure import ExplainedFailure
from tuner.consultation.result import ProjectOption
from tuner.findings import Numerics
from tuner.inputs.secrets import without_secrets
from tuner.out_of_memory.kinds import ErrorKind
from tuner.out_of_memory.stack import Call
from tuner.render import premises_report  # noqa: F401 - says how options of a project are published
from tuner.render.allocation_report import AllocationReport, allocation_report
from tuner.render.json_text import json_text
from tuner.render.report_values import SCHEMA_VERSION, SchemaVersion
from tuner.timing import StepChange
from tuner.workload import Phase
from tuner.workload.place import FailedWork


class ErrorLine(Struct, frozen=True, kw_only=True):
    """What was printed."""

    kind: ErrorKind
    text: Annotated[str, Meta(description="the line, without what a launcher put in front of it")]
    line: Annotated[int, Meta(description="its number in the text that was given, from 1")]
    engine: Annotated[str, Meta(description="the rollout engine whose words they are; empty for others")]
    figures: Annotated[dict[str, float], Meta(description="numbers of the message, as it has them")]


class PlaceReport(Struct, frozen=True, kw_only=True):
    """Where the job was, as the stack of calls tells."""

    phases: Annotated[tuple[Phase, ...], Meta(description="one of which it was; none where no call says")]
    before_steps: Annotated[bool, Meta(description="the job was still starting")]
    phase_call: Call | None
    work: FailedWork | None
    work_call: Call | None


class NeedReport(Struct, frozen=True, kw_only=True):
    """Where memory was missing, and how much may be taken there."""

    measure: Measure
    phase: Phase | None
    limit_bytes: Annotated[int, Meta(description="at most, of a peak and the host; at least, of room")]
    known: Annotated[bool, Meta(description="false: a tenth of what there is, to have something to compare")]


class RemedyReport(Struct, frozen=True, kw_only=True):
    """One change of settings and what it does where memory was missing."""

    code: str
    name: str
    overrides: tuple[str, ...]
    measure: Measure
    phase: Phase | None
    before_bytes: int
    after_bytes: int
    enough: Annotated[bool, Meta(description="by the model, this change alone")]
    seconds_before: float
    seconds_after: float
    change: Annotated[StepChange, Meta(description="of the seconds, with its interval")]
    numerics: Numerics
    yours: Annotated[bool, Meta(description="changes the training: for the user to decide")]


class OtherSetting(Struct, frozen=True, kw_only=True):
    """A setting that the error states otherwise than the configuration."""

    name: str
    in_error: float
    in_configuration: float


class FailureReport(Struct, frozen=True, kw_only=True):
    """Everything that ``tuner explain-oom`` found out about one error."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    tuner_version: str
    source: Annotated[str | None, Meta(description="the configuration; null where none was given")]
    model: str | None
    error: ErrorLine
    place: PlaceReport
    allocation: Annotated[
        AllocationReport | None,
        Meta(description="the tensors of the failed size; null where the error names none"),
    ]
    card: Annotated[CardUse | None, Meta(description="what was on the card, by the message")]
    standing: Annotated[
        Standing | None, Meta(description="what the model says of the phase; null without a job")
    ]
    of_another_job: Annotated[bool, Meta(description="the job has none of the phases that the stack tells")]
    starts: Annotated[
        bool | None, Meta(description="of a rollout engine that did not start: whether it does by the model")
    ]
    host_bytes: Annotated[int | None, Meta(description="host memory of a node, by the model")]
    other_settings: tuple[OtherSetting, ...]
    deciding_keys: Annotated[dict[str, object], Meta(description="what decides there, with its value")]
    need: NeedReport | None
    remedies: tuple[RemedyReport, ...]
    project_settings: Annotated[
        tuple[ProjectOption, ...], Meta(description="what the settings say in place of options")
    ]


def failure_report(explained: ExplainedFailure) -> FailureReport:
    """The whole explanation."""
    failure, answer = explained.failure, explained.answer
    error, place, need = failure.error, failure.place, failure.need
    settings = None if answer is None else answer.settings
    workload = None if answer is None else answer.advice.workload
    return FailureReport(
        tuner_version=__version__,
        source=None if answer is None else answer.given.source,
        model=explained.model if workload is None else workload.model.name,
        error=ErrorLine(
            kind=error.kind,
            text=without_secrets(error.text),
            line=error.line,
            engine=error.engine,
            figures=dict(error.figures),
        ),
        place=PlaceReport(
            phases=place.phases,
            before_steps=place.before_steps,
            phase_call=_shown(place.phase_call),
            work=place.work,
            work_call=_shown(place.work_call),
        ),
        allocation=None if failure.allocation is None else allocation_report(failure.allocation),
        card=failure.card,
        standing=failure.standing,
        of_another_job=failure.of_another_job,
        starts=failure.starts,
        host_bytes=failure.host_bytes,
        other_settings=tuple(
            OtherSetting(name=name, in_error=there, in_configuration=here)
            for name, there, here in failure.others_settings
        ),
        deciding_keys={key: None if settings is None else settings.get(key) for key in explained.keys},
        need=None
        if need is None
        else NeedReport(
            measure=need.measure, phase=need.phase, limit_bytes=need.limit_bytes, known=need.known
        ),
        remedies=tuple(map(_remedy, failure.remedies)),
        project_settings=explained.from_project,
    )


def _shown(call: Call | None) -> Call | None:
    """A call without what is secret in its line of the program, or in its file's own name."""
    if call is None:
        return None
    folder = call.file.removesuffix(call.name)
    return replace(call, code=without_secrets(call.code), file=folder + without_secrets(call.name))


def _remedy(remedy: Remedy) -> RemedyReport:
    return RemedyReport(
        code=remedy.rule.code,
        name=remedy.rule.name,
        overrides=remedy.overrides,
        measure=remedy.measure,
        phase=remedy.phase,
        before_bytes=remedy.before_bytes,
        after_bytes=remedy.after_bytes,
        enough=remedy.enough,
        seconds_before=remedy.seconds_before,
        seconds_after=remedy.seconds_after,
        change=remedy.change,
        numerics=remedy.numerics,
        yours=remedy.yours,
    )


def failure_json(explained: ExplainedFailure) -> str:
    """The explanation as JSON."""
    return json_text(failure_report(explained))
