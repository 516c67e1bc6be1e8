"""The parts of a validation: their modules, what each would run, and who is told while they run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tuner.validate.children.call import Failed
from tuner.validate.children.servers import ServedFunction
from tuner.validate.collectives import part as collectives
from tuner.validate.head import part as head
from tuner.validate.machine import part as machine
from tuner.validate.parts import ValidationPart
from tuner.validate.report.schema import PartReport
from tuner.validate.rollout import part as rollout
from tuner.validate.search import part as search
from tuner.validate.session import NotHereError, Options, Planned, Session, Subject
from tuner.validate.training import part as training
from tuner.validate.verl_update import part as verl_update


class PartModule(Protocol):
    """What the module of a part provides."""

    @property
    def WORKERS(self) -> tuple[ServedFunction, ...]:  # noqa: N802
        """The functions that it has children call."""

    def plan(self, subject: Subject, options: Options) -> tuple[Planned, ...]:
        """What would be run.

        Raises:
            NotHereError: nothing of it can run here.
        """

    def run(self, session: Session) -> None:
        """Measure, and record what the figures say."""


PARTS: dict[ValidationPart, PartModule] = {
    ValidationPart.MACHINE: machine,
    ValidationPart.OUTPUT_HEAD: head,
    ValidationPart.TRAINING_STEP: training,
    ValidationPart.ROLLOUT: rollout,
    ValidationPart.COLLECTIVES: collectives,
    ValidationPart.SEARCH: search,
    ValidationPart.VERL_UPDATE: verl_update,
}


def workers() -> tuple[ServedFunction, ...]:
    """The functions that children call for any part, each once."""
    return tuple(dict.fromkeys(worker for module in PARTS.values() for worker in module.WORKERS))


@dataclass(frozen=True, kw_only=True)
class PartPlan:
    """What a part would run, or why it runs nothing."""

    part: ValidationPart
    planned: tuple[Planned, ...] = ()
    reason: str = ""  # why it is left out; empty where it is not


def plan(subject: Subject, options: Options, parts: Sequence[ValidationPart]) -> tuple[PartPlan, ...]:
    """What each part would run, in the order of the run."""
    return tuple(_plan(subject, options, part) for part in ValidationPart if part in parts)


def _plan(subject: Subject, options: Options, part: ValidationPart) -> PartPlan:
    try:
        return PartPlan(part=part, planned=PARTS[part].plan(subject, options))
    except NotHereError as reason:
        return PartPlan(part=part, reason=str(reason))


class Progress(Protocol):
    """Told what the run is doing."""

    def begin(self, planned: Sequence[PartPlan], budget_s: float) -> None:
        """The run begins."""

    def part(self, part: ValidationPart) -> None:
        """A part begins."""

    def call(self, title: str, expected_s: float, left_s: float) -> None:
        """Something is run; ``left_s`` of the whole budget is left."""

    def returned(self, failed: Failed | None) -> None:
        """What was run has returned, or failed."""

    def part_done(self, report: PartReport) -> None:
        """A part has ended."""

    def warn(self, text: str) -> None:
        """Something that a person should know at once."""

    def end(self) -> None:
        """The run has ended."""
