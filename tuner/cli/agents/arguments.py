"""The arguments of an agent's questions: those of the commands, under the names of their options."""

from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from tuner.api import PlanPremiseValues, PremiseValues
from tuner.cli.agents.parts import PARTS
from tuner.cli.premise_options import HELP
from tuner.consultation.premises import LEAST_GAIN, OPTIONS

_NOT_ASKED = {"trace"}  # it imports the model's implementation, which takes a minute


class _Arguments(BaseModel):
    """Arguments of which none is unknown."""

    model_config = ConfigDict(extra="forbid")


_SOURCE: Any = (
    Annotated[
        str,
        Field(
            description="A configuration in YAML, a launch script, a run's log or folder: a path "
            "below the server's root, seen from there."
        ),
    ],
    ...,
)
_WORDS: Any = (
    Annotated[
        list[str],
        Field(
            description="What follows it on a command line: overrides (key=value, +key=value, ~key), or a "
            "script's own arguments and NAME=value for variables that it takes from its environment."
        ),
    ],
    [],
)


def _stated(kind: type) -> dict[str, Any]:
    """What is said of a job beside its configuration, each under the name of its option."""
    return {
        name: (hint | None, Field(default=None, alias=_argument(name), description=HELP[_option(name)]))
        for name, hint in get_type_hints(kind).items()
        if name not in _NOT_ASKED
    }


def _option(name: str) -> str:
    return OPTIONS[name].removeprefix("--")


def _argument(name: str) -> str:
    return _option(name).replace("-", "_")


def _text(description: str) -> Any:
    return (Annotated[str | None, Field(description=description)], None)


def _texts(description: str) -> Any:
    return (Annotated[list[str], Field(description=description)], [])


def _numbers(option: str) -> Any:
    return (Annotated[list[int], Field(description=HELP[option])], [])


def _parts(tool: str) -> Any:
    return (
        Annotated[
            list[Literal[PARTS[tool]]],  # type: ignore[valid-type]
            Field(description="Parts of the whole report that are left out unless they are named here."),
        ],
        [],
    )


def _arguments(name: str, /, **fields: Any) -> type[BaseModel]:
    return create_model(name, __base__=_Arguments, **fields)


ADVISE = _arguments(
    "AdviseArguments",
    source=_SOURCE,
    words=_WORDS,
    allow=(
        Annotated[
            Literal["nothing", "reweighted", "changed"],
            Field(description="What the block may do to the training: weigh tokens otherwise, or more."),
        ],
        "nothing",
    ),
    least_gain=(
        Annotated[float, Field(ge=0, le=1, description="Share of the step that a line has to bring.")],
        LEAST_GAIN,
    ),
    log=_text("The log of a run of this job, or its end: a path."),
    parts=_parts("advise"),
    **_stated(PremiseValues),
)
CHECK = _arguments(
    "CheckArguments",
    source=_SOURCE,
    words=_WORDS,
    select=_texts("Codes, names or groups of the rules that are asked; all where empty."),
    ignore=_texts("Those that are not."),
    **_stated(PremiseValues),
)
DIFF = _arguments(
    "DiffArguments",
    source=_SOURCE,
    words=_WORDS,
    other_source=_text("The second configuration; the first one again where it is left out."),
    other_words=(_WORDS[0], []),
    **_stated(PremiseValues),
)
PLAN = _arguments(
    "PlanArguments",
    source=_SOURCE,
    words=_WORDS,
    gpu=_texts(HELP["gpu"]),
    gpus_per_node=_numbers("gpus-per-node"),
    nodes=_numbers("nodes"),
    prices=(Annotated[dict[str, float], Field(description="Of a GPU-hour, by card.")], {}),
    hold=_texts("Keys that stay as they are, or KEY=VALUE that are set and stay."),
    vary=_texts("KEY=A,B for keys that a plan leaves alone by itself."),
    longest=(Annotated[bool, Field(description="Whether it is said how long responses may get.")], False),
    parts=_parts("plan"),
    **_stated(PlanPremiseValues),
)
EXPLAIN_OOM = _arguments(
    "ExplainArguments",
    message=(
        Annotated[str, Field(description="The error as it was printed, or a file that has its traceback.")],
        ...,
    ),
    source=_text("The job that met it; the error alone is explained without it."),
    words=_WORDS,
    log=_text("The log of the run: a path."),
    **_stated(PremiseValues),
)
ESTIMATE_MEMORY = _arguments(
    "EstimateArguments",
    vocab=_text("Entries of the vocabulary, such as 152k."),
    tokens=_text("Tokens of the micro-batch on one GPU, such as 16k."),
    hidden=_text("Width of the model."),
    dtype=(Annotated[str, Field(description="Number format of logits, activations and KV cache.")], "bf16"),
    model=_text(HELP["model"]),
    gpu=_text(HELP["gpu"]),
    gpu_memory=_text(HELP["gpu-memory"]),
)
RULE = _arguments("RuleArguments", name=(Annotated[str, Field(description="A code, or a name.")], ...))
