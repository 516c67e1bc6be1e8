"""The JSON Schemas of all outputs, of the inputs that are JSON, and of the settings of a project."""

from typing import Any

from msgspec import Struct
from pydantic import BaseModel

from tuner.accuracy import MeasuredFile, MeasuredRun
from tuner.inputs.record.bundle import Bundle
from tuner.render.accuracy_report import AccuracyReport
from tuner.render.checked.report import CheckReport
from tuner.render.comparison_report import ComparisonReport
from tuner.render.failure_report import FailureReport
from tuner.render.plan_report import PlanReport
from tuner.render.report import HeadReport, Report
from tuner.render.report_values import SCHEMA_VERSION
from tuner.render.settings_report import SettingsReport
from tuner.render.struct_models import model_of
from tuner.review.project import schema as written
from tuner.trainers.protocol import KeyCatalogue
from tuner.validate.report.schema import ValidationFile

OUTPUTS: dict[str, tuple[type[Struct] | type[BaseModel], str]] = {
    "report": (Report, "tuner report"),
    "check": (CheckReport, "tuner check report"),
    "explanation": (FailureReport, "tuner explain-oom report"),
    "config": (SettingsReport, "tuner config report"),
    "diff": (ComparisonReport, "tuner diff report"),
    "plan": (PlanReport, "tuner plan report"),
    "estimate": (HeadReport, "tuner estimate-memory report"),
    "accuracy": (AccuracyReport, "tuner accuracy report"),
    "bundle": (Bundle, "tuner bundle"),
    "validation": (ValidationFile, ""),
}
"""What the commands print as JSON, each with the title of its schema; a model has its own."""

INPUTS: dict[str, type[BaseModel]] = {"measured": MeasuredFile, "runs": MeasuredRun}
FILES = tuple(written.SCHEMAS)  # that people write, whose schemas are made of structs
SCHEMAS = (*OUTPUTS, *INPUTS, *FILES)
INPUT = "input"  # the configuration, which differs by release


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of one output or input, with its identity and version."""
    content = (
        _output(name).model_json_schema(mode="serialization")
        if name in OUTPUTS
        else INPUTS[name].model_json_schema(mode="validation")
        if name in INPUTS
        else written.json_schema(name)
    )
    return _named(name, content)


def _output(name: str) -> type[BaseModel]:
    output, title = OUTPUTS[name]
    return model_of(output, title) if issubclass(output, Struct) else output


def input_schema(trainer: str, version: str, catalogue: KeyCatalogue) -> dict[str, Any]:
    """The JSON Schema of a configuration on a bundled release of a trainer."""
    return _named(f"{INPUT}:{trainer}-{version}", catalogue.input_schema(version))


def _named(name: str, content: dict[str, Any]) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:tuner:schema:{name}:{SCHEMA_VERSION}",
        **content,
    }
