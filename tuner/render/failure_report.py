"""The JSON of an explained out-of-memory error."""

from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from tuner import __version__
from tuner.advise.failure import Failure, OtherSetting
from tuner.advise.needs import Need
from tuner.consultation.failure import ExplainedFailure
from tuner.consultation.result import ProjectOption
from tuner.inputs.secrets import without_secrets
from tuner.out_of_memory.reading import OutOfMemory
from tuner.out_of_memory.stack import Call
from tuner.render import memory_report, premises_report, remedy_report  # noqa: F401 - say how their structs are published
from tuner.render.json_text import json_text
from tuner.render.publication import extended, publish
from tuner.render.report_values import SCHEMA_VERSION, SchemaVersion
from tuner.workload.place import FailurePlace


class FailureReport(Failure, frozen=True, kw_only=True):
    """Everything that ``tuner explain-oom`` found out about one error, without what is secret."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    tuner_version: str
    source: Annotated[str | None, Meta(description="the configuration; null where none was given")]
    model: str | None
    deciding_keys: Annotated[dict[str, object], Meta(description="what decides there, with its value")]
    project_settings: Annotated[
        tuple[ProjectOption, ...], Meta(description="what the settings say in place of options")
    ]


publish(
    FailureReport,
    "FailureReport",
    *("schema_version", "tuner_version", "source", "model", "error", "place", "allocation", "card"),
    *("standing", "of_another_job", "starts", "host_bytes", "other_settings", "deciding_keys", "need"),
    *("remedies", "project_settings"),
    text="Everything that ``tuner explain-oom`` found out about one error.",
    defaults={"schema_version": SCHEMA_VERSION},
)
publish(
    OutOfMemory,
    "ErrorLine",
    *("kind", "text", "line", "engine", "figures"),
    text="What was printed.",
    types={
        "figures": Annotated[dict[str, float], Meta(description="numbers of the message, as it has them")]
    },
)
publish(
    FailurePlace,
    "PlaceReport",
    *("phases", "before_steps", "phase_call", "work", "work_call"),
    text="Where the job was, as the stack of calls tells.",
)
publish(
    Need,
    "NeedReport",
    *("measure", "phase", "limit_bytes", "known"),
    text="Where memory was missing, and how much may be taken there.",
)
publish(OtherSetting, "OtherSetting", *OtherSetting._fields)


def failure_report(explained: ExplainedFailure) -> FailureReport:
    """The whole explanation."""
    failure, answer = explained.failure, explained.answer
    error, place = failure.error, failure.place
    workload = None if answer is None else answer.advice.workload
    return extended(
        FailureReport,
        failure,
        tuner_version=__version__,
        source=None if answer is None else answer.given.source,
        model=explained.model if workload is None else workload.model.name,
        error=replace(error, text=without_secrets(error.text)),
        place=replace(place, phase_call=_shown(place.phase_call), work_call=_shown(place.work_call)),
        deciding_keys=explained.deciding_settings,
        project_settings=explained.from_project,
    )


def _shown(call: Call | None) -> Call | None:
    """A call without what is secret in its line of the program, or in its file's own name."""
    if call is None:
        return None
    folder = call.file.removesuffix(call.name)
    return replace(call, code=without_secrets(call.code), file=folder + without_secrets(call.name))


def failure_json(explained: ExplainedFailure) -> str:
    """The explanation as JSON."""
    return json_text(failure_report(explained))
