"""What a run tells whoever watches it; :mod:`tuner.render.progress` shows it."""

from collections.abc import Sequence
from typing import Protocol

from tuner.validate.children.outcome import Failed
from tuner.validate.parts import ValidationPart
from tuner.validate.plans import PartPlan
from tuner.validate.report.schema import PartReport


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

    def done(self, report: PartReport) -> None:
        """A part has ended."""

    def warn(self, text: str) -> None:
        """Something that a person should know at once."""

    def end(self) -> None:
        """The run has ended."""
