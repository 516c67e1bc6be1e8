"""What a settings file and a budget file may say. The published schema is made from these structs."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tuner.evidence import Evidence
from tuner.findings import Severity
from tuner.workload import Phase

Globs = Annotated[
    tuple[str, ...],
    Meta(
        min_length=1,
        description="Patterns of inputs, from the folder of this file on; * takes any characters, slashes "
        "too. One without a slash is held against the name of the file alone.",
    ),
]
Rules = Annotated[tuple[str, ...], Meta(description="Codes, names or groups of rules, such as ROL or ALL.")]
_Text = Annotated[str, Meta(min_length=1, description="What the option of this name takes.")]
_Count = Annotated[int, Meta(ge=1, description="What the option of this name takes.")]
_Tokens = Annotated[float, Meta(ge=1, description="Tokens, as the option of this name takes them.")]
_Images = Annotated[int, Meta(ge=0, description="What the option of this name takes.")]
_Memory = Annotated[
    str, Meta(description='At most so much memory of a GPU: "70GiB", or a share of the card, "85%".')
]
_Time = Annotated[
    str | int | float, Meta(description='At most so long: "120s", "2m", or a number, which is in seconds.')
]
_Hours = Annotated[
    float, Meta(gt=0, description="At most so many hours of a GPU, all GPUs of the job added up, a step.")
]


class JobSettings(Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """What is said of a job beside its configuration; every key is the option of the same name."""

    verl_version: _Text | None = None
    engine_version: _Text | None = None
    model: _Text | None = None
    critic_model: _Text | None = None
    reward_model: _Text | None = None
    gpu: _Text | None = None
    gpu_memory: _Text | None = None
    gpus_per_node: _Count | None = None
    nodes: _Count | None = None
    network: _Text | None = None
    storage: _Text | None = None
    mean_prompt_length: _Tokens | None = None
    mean_response_length: _Tokens | None = None
    response_p95: _Tokens | None = None
    response_max: _Tokens | None = None
    kept_groups: (
        Annotated[float, Meta(gt=0, le=1, description="Share of groups that a filter keeps.")] | None
    ) = None
    tool_seconds: Annotated[float, Meta(ge=0, description="Seconds.")] | None = None
    turns: Annotated[float, Meta(ge=1, description="Turns of a response, on average.")] | None = None
    tool_tokens: Annotated[int, Meta(ge=0, description="Tokens.")] | None = None
    images_per_prompt: _Images | None = None
    image_pixels: _Count | None = None
    data_rows: _Count | None = None
    val_rows: _Count | None = None
    host_memory: Annotated[float, Meta(ge=1, description="GiB of one node.")] | None = None


class FindingChoice(JobSettings, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Settings of the job that is judged, and which findings are wanted."""

    select: Annotated[Rules, Meta(description="Only these rules are shown.")] | None = None
    ignore: Annotated[Rules, Meta(description="These rules are not shown.")] | None = None
    min_evidence: (
        Annotated[Evidence, Meta(description="Findings that are less sure than this are not shown.")] | None
    ) = None


class PerFile(FindingChoice, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """What is said of some inputs alone; it wins over what is said of all, and a later one over it."""

    files: Globs


class PhaseBudget(Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """What one phase of a step may take."""

    memory: _Memory | None = None
    seconds: _Time | None = None
    gpu_hours: _Hours | None = None


class Budget(Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """What a team allows a configuration to take."""

    files: Globs | None = None
    memory: Annotated[_Memory, Meta(description="The same for every phase.")] | None = None
    seconds: Annotated[_Time, Meta(description="Of a whole step.")] | None = None
    gpu_hours: _Hours | None = None
    phases: Annotated[
        dict[Phase, PhaseBudget], Meta(description="Of single phases, by the names that the answer has.")
    ] = {}


class BudgetFile(Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """A file of budgets. All that are for an input hold."""

    budget: tuple[Budget, ...]


class ProjectSettings(FindingChoice, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The settings of a project: tuner.toml, .tuner.toml, or the table tool.tuner of pyproject.toml."""

    extend: (
        Annotated[str, Meta(min_length=1, description="Another settings file, over which this one is laid.")]
        | None
    ) = None
    fail_on: (
        Annotated[Severity, Meta(description="Least severity of a finding that makes the exit code 1.")]
        | None
    ) = None
    require_reason: (
        Annotated[bool, Meta(description="Whether a comment that ignores findings has to say why.")] | None
    ) = None
    baseline: (
        Annotated[str, Meta(min_length=1, description="The file of findings that are known already.")] | None
    ) = None
    per_file: tuple[PerFile, ...] = ()
    budget: tuple[Budget, ...] = ()


PREMISES = JobSettings.__struct_fields__
"""The fields of a job's premises, which are named like the options."""

SCHEMAS: dict[str, type[Struct]] = {"settings": ProjectSettings, "budget": BudgetFile}


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a settings file or a budget file."""
    schema: dict[str, Any] = _without_null(msgspec.json.schema(SCHEMAS[name]))
    return schema


def _without_null(schema: Any) -> Any:
    """A schema in which a setting may be left out, but not be null, which TOML does not have."""
    if isinstance(schema, list):
        return [_without_null(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("default", ...) is None:
        schema = {key: value for key, value in schema.items() if key != "default"}
    choices = schema.get("anyOf", ())
    left = [choice for choice in choices if choice != {"type": "null"}]
    if len(left) == 1 and len(choices) > 1:
        schema = {**left[0], **{key: value for key, value in schema.items() if key != "anyOf"}}
    return {key: _without_null(value) for key, value in schema.items()}
