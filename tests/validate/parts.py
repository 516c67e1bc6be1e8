"""Parts that tests put in the place of the package's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.cli.runner import ROOT
from tuner.consultation.consult import consult, model_config
from tuner.consultation.premises import Premises
from tuner.validate.children.call import Failed
from tuner.validate.children.servers import ServedFunction
from tuner.validate.parts import ValidationPart
from tuner.validate.plans import PartPlan
from tuner.validate.report.schema import JudgedRecommendation, Machine, Measurement, Outcome, PartReport
from tuner.validate.session import NotHereError, Options, Planned, Session, Subject

CONFIG = str(ROOT / "tests/cli/configs/grpo.yaml")
PREMISES = Premises(verl_version="0.9.1", gpu="h100-sxm")
MACHINE = Machine(
    device="NVIDIA H200",
    devices=1,
    profile="h200-sxm",
    total_bytes=150 * 10**9,
    free_bytes=149 * 10**9,
    versions={"torch": "2.11.0", "python": "3.11.7"},
)


def subject() -> Subject:
    answer = consult(CONFIG, (), PREMISES)
    return Subject(
        source=CONFIG,
        overrides=("a.b=1",),
        workload=answer.advice.workload,
        advice=answer.advice,
        model_config=model_config(answer.loaded, PREMISES),
    )


def options(budget_s: float = 120.0) -> Options:
    return Options(device="cpu", processes=1, budget_s=budget_s, memory_limit_bytes=None)


def figure(name: str = "update_actor.peak", **changes: Any) -> Measurement:
    values: dict[str, Any] = {
        "name": name,
        "what": "peak of the update",
        "unit": "bytes",
        "measured": 60 * 2**30,
        "predicted": 61 * 2**30,
        "tolerance": 0.03,
    }
    return Measurement(**values | changes)


def verdict(outcome: Outcome, **changes: Any) -> JudgedRecommendation:
    values: dict[str, Any] = {
        "code": "KRN999",
        "name": "some-kernel",
        "overrides": ("a.key=1",),
        "claim": "update_actor 60.0 to 50.0 GiB",
        "outcome": outcome,
        "reason": "measured 60.1 and 50.2 GiB",
    }
    return JudgedRecommendation(**values | changes)


@dataclass(frozen=True)
class FakePart:
    """Does what it is told."""

    act: Callable[[Session], None] = lambda session: None
    planned: tuple[Planned, ...] = (Planned(title="something", seconds=5.0),)
    refusal: Exception | None = None
    WORKERS: tuple[ServedFunction, ...] = ()

    def plan(self, subject: Subject, options: Options) -> tuple[Planned, ...]:
        if self.refusal is not None:
            raise self.refusal
        return self.planned

    def run(self, session: Session) -> None:
        self.act(session)


def only(parts: Mapping[ValidationPart, FakePart]) -> dict[ValidationPart, FakePart]:
    """These in the place of the package's parts; the others run nothing."""
    absent = FakePart(refusal=NotHereError("a test left it out"))
    return {part: parts.get(part, absent) for part in ValidationPart}


@dataclass
class Heard:
    """A progress that keeps what it is told."""

    lines: list[str] = field(default_factory=list)

    def begin(self, planned: tuple[PartPlan, ...], budget_s: float) -> None:
        self.lines.append(f"begin {budget_s:.0f}")

    def part(self, part: ValidationPart) -> None:
        self.lines.append(f"part {part.value}")

    def call(self, title: str, expected_s: float, left_s: float) -> None:
        self.lines.append(f"call {title} {expected_s:.0f} {left_s:.0f}")

    def returned(self, failed: Failed | None) -> None:
        self.lines.append(f"returned {failed.why.value if failed else 'a result'}")

    def part_done(self, report: PartReport) -> None:
        self.lines.append(f"done {report.part.value} {report.status.value}")

    def warn(self, text: str) -> None:
        self.lines.append(text)

    def end(self) -> None:
        self.lines.append("end")


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
