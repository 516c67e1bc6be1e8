"""What a validation found: pydantic models, published as a JSON Schema.

The file is one of measured passes, which ``tuner accuracy`` reads, with a part more.
"""

from enum import Enum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tuner.accuracy.measured_files import MeasuredCase
from tuner.language import N_
from tuner.validate.parts import ValidationPart


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Outcome(str, Enum):
    """What a measurement says of what was claimed."""

    CONFIRMED = N_("confirmed")
    REFUTED = N_("refuted")
    NOT_MEASURABLE = N_("not measurable here")


class Status(str, Enum):
    """How far a part came."""

    DONE = N_("done")
    PARTIAL = N_("partial")  # the budget or an interruption ended it
    FAILED = N_("failed")
    SKIPPED = N_("skipped")


Unit = Literal[
    "bytes", "seconds", "bytes/s", "flop/s", "tokens", "tokens/s", "sequences", "blocks", "share", "number"
]


class Measurement(_Model):
    """One figure beside its prediction."""

    name: Annotated[str, Field(description="stable, e.g. update_actor.peak")]
    what: Annotated[str, Field(description="a line to read")]
    unit: Unit
    measured: float
    predicted: float | None = None
    low: Annotated[float | None, Field(description="ends of the predicted interval")] = None
    high: float | None = None
    tolerance: Annotated[
        float | None, Field(ge=0, description="share of the measured figure that the prediction may be off")
    ] = None
    extrapolated: Annotated[str | None, Field(description="how, where the figure is not a direct one")] = None
    details: Annotated[dict[str, float | int | str | bool], Field(description="further figures")] = {}

    @property
    def error(self) -> float | None:
        """How far the prediction is off, as a share of what was measured; above 0: predicted too high."""
        if self.predicted is None or not self.measured:
            return None
        return self.predicted / self.measured - 1

    @property
    def outcome(self) -> Outcome | None:
        """None where nothing was claimed."""
        if self.low is not None and self.high is not None:
            inside = self.low <= self.measured <= self.high
            return Outcome.CONFIRMED if inside else Outcome.REFUTED
        error = self.error
        if error is None or self.tolerance is None:
            return None
        return Outcome.CONFIRMED if abs(error) <= self.tolerance else Outcome.REFUTED


class PartReport(_Model):
    """One part of the run."""

    part: ValidationPart
    status: Status
    reason: Annotated[str, Field(description="why it is not done; empty where it is")] = ""
    seconds: Annotated[float, Field(ge=0)]
    measurements: tuple[Measurement, ...] = ()


class JudgedRecommendation(_Model):
    """One recommendation of ``advise`` and what the measurements say of it."""

    code: str
    name: str
    overrides: tuple[str, ...]
    claim: Annotated[str, Field(description="what was predicted, a line to read")]
    outcome: Outcome
    reason: Annotated[str, Field(description="the figures that decide, or why there are none")]
    measurements: Annotated[tuple[Measurement, ...], Field(description="with and without the change")] = ()


class OtherProcess(_Model):
    """A process that uses the GPU and is not ours."""

    pid: int
    used_bytes: int | None


class Machine(_Model):
    """What the figures were measured on."""

    device: Annotated[str, Field(description="name of the GPU, or cpu")]
    devices: int
    profile: Annotated[str | None, Field(description="the hardware profile that the prediction used")] = None
    total_bytes: Annotated[int, Field(description="of one GPU as CUDA hands it out, or of the host")]
    free_bytes: Annotated[int, Field(description="when the run began")]
    others: Annotated[
        tuple[OtherProcess, ...], Field(description="processes that use the GPU beside us")
    ] = ()
    versions: Annotated[
        dict[str, str], Field(description="driver, CUDA, torch, triton, transformers, verl, vllm, python")
    ]
    nodes: Annotated[int, Field(ge=1, description="nodes of this kind that reported")] = 1


class Validation(_Model):
    """One run on one kind of node."""

    schema_version: Literal[1] = 1
    tuner_version: str
    date: str
    source: Annotated[str, Field(description="the configuration")]
    overrides: tuple[str, ...] = ()
    trainer: str
    model: str
    budget_seconds: float
    spent_seconds: float
    memory_limit_bytes: Annotated[
        int | None, Field(description="of each GPU, that the run was to take at most")
    ] = None
    interrupted: bool = False
    machine: Machine
    parts: tuple[PartReport, ...]
    recommendations: tuple[JudgedRecommendation, ...] = ()

    @property
    def refuted(self) -> bool:
        """Whether anything that was claimed is not so here."""
        outcomes = [figure.outcome for part in self.parts for figure in part.measurements]
        outcomes += [judged.outcome for judged in self.recommendations]
        return Outcome.REFUTED in outcomes


class ValidationFile(_Model):
    """Measured passes, which ``tuner accuracy`` reads, and the validation they come from."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, title="a validation on this machine's GPU"
    )

    what: str
    hardware: str
    software: dict[str, str]
    notes: tuple[str, ...] = ()
    date: str
    cases: tuple[MeasuredCase, ...] = ()
    validation: Validation
