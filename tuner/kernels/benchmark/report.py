"""The benchmark's report: what ``--output`` writes and what the documentation's tables are made of."""

from enum import Enum
from typing import Literal

from pydantic import BaseModel, ConfigDict


class HeadSource(str, Enum):
    """Whose head it is."""

    OURS = "ours"
    COMPARISON = "comparison"  # verl's ways in torch, written out in tuner.kernels.comparison
    RIVAL = "rival"  # another package's kernels, as installed


class Task(str, Enum):
    """What a head computes and is differentiated by."""

    EACH = "log-probability and entropy"
    LOG_PROBS = "log-probability only"
    MEAN = "mean log-probability only"
    POLICY_LOSS = "policy loss"

    @property
    def outputs(self) -> tuple[str, ...]:
        """The results, in the order in which a head gives them."""
        return _OUTPUTS[self]


_OUTPUTS = {
    Task.EACH: ("log_probs", "entropy"),
    Task.LOG_PROBS: ("log_probs",),
    Task.MEAN: ("loss",),
    Task.POLICY_LOSS: ("loss", "log_probs", "entropy"),
}


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=True, ser_json_inf_nan="strings")


class HeadStatus(str, Enum):
    """What came of a head."""

    RIGHT = "right"
    WRONG = "wrong"  # further off than its limits, or not finite
    FAILED = "failed"  # it raised an error
    SKIPPED = "skipped"  # it does not fit
    MISSING = "missing"  # it cannot run here: not installed, or for another device


class Times(_Model):
    """Milliseconds of one call, over the rounds in which it took part."""

    median_ms: float
    least_ms: float
    most_ms: float
    rounds: int


class Passes(_Model):
    """One number for the forward pass alone and one for both passes."""

    forward: float
    both: float


class Speed(_Model):
    """How fast a head is, and against what."""

    forward: Times
    both: Times
    # Time of the matrix products that the head needs, measured beside it, over the head's time.
    share_of_products: Passes
    # The same with the products at the rate of one large square product.
    share_of_burst: Passes
    # verl's Triton kernel's time over the head's; None where that was not measured.
    over_verl_triton: Passes | None
    # Time of both passes with upstream gradients in a part of the rows, over that with all.
    few_gradients: float | None


class HeadResult(_Model):
    """One head on one shape."""

    name: str
    family: HeadSource
    task: Task
    version: str | None
    status: HeadStatus
    reason: str  # why it is not right; empty where it is
    products: int
    errors: dict[str, float]  # relative norm, against float64
    limits: dict[str, float]
    same_bits_twice: bool | None
    first_call_s: Passes | None
    peak_bytes: Passes | None  # beyond the inputs, results included
    speed: Speed | None


class ShapeReport(_Model):
    """All heads on one shape."""

    tokens: int
    hidden: int
    vocabulary: int
    products: dict[str, Times]
    # Errors of a head whose logits torch rounds to the dtype of the inputs.
    rounded_errors: dict[Task, dict[str, float]]
    heads: tuple[HeadResult, ...]

    @property
    def name(self) -> str:
        """The shape as ``--shapes`` takes it."""
        return f"{self.tokens}x{self.hidden}x{self.vocabulary}"


class AdversarialReport(_Model):
    """One head on logits of one kind that break kernels."""

    case: str
    vocabulary: int
    head: str
    family: HeadSource
    status: HeadStatus
    reason: str
    # Largest absolute error of log-probability and entropy, relative norm of a gradient's.
    errors: dict[str, float]
    limits: dict[str, float]


class BenchmarkMachine(_Model):
    """Where and with what a benchmark ran."""

    device: str
    driver: str | None
    cuda: str | None
    versions: dict[str, str]  # of python and of the packages that took part


class BenchmarkReport(_Model):
    """One run of ``python -m tuner.kernels.benchmark``."""

    layout: Literal["tuner.kernels.benchmark/2"] = "tuner.kernels.benchmark/2"
    command: str
    date: str
    seconds: float
    dtype: str
    zero_gradient: float  # share of the rows without upstream gradient in ``few_gradients``
    machine: BenchmarkMachine
    shapes: tuple[ShapeReport, ...]
    adversarial: tuple[AdversarialReport, ...]

    @property
    def ours_are_right(self) -> bool:
        """Whether none of this package's own heads is wrong or failed."""
        ordinary = ((head.family, head.status) for shape in self.shapes for head in shape.heads)
        hard = ((case.family, case.status) for case in self.adversarial)
        bad = (HeadStatus.WRONG, HeadStatus.FAILED)
        return not any(
            family is HeadSource.OURS and status in bad
            for verdicts in (ordinary, hard)
            for family, status in verdicts
        )
