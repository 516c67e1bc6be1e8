"""What a validation is doing, on standard error: bars on a terminal, plain lines elsewhere."""

import os
import time
from collections.abc import Sequence
from textwrap import shorten
from typing import TextIO

from rich.console import Console
from rich.progress import Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from tuner.language import _
from tuner.render.terminal import plain, write
from tuner.render.words import listed
from tuner.validate import plans
from tuner.validate.children.call import Failed
from tuner.validate.parts import ValidationPart
from tuner.validate.plans import PartPlan
from tuner.validate.report.schema import PartReport, Status

_BAR = 24  # columns
_MESSAGE = 160  # characters of a failure


def progress_on(stream: TextIO) -> plans.Progress:
    """Bars where the stream is a terminal that can draw them, else lines."""
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        return Bars(stream)
    return Lines(stream)


class Lines:
    """One line when something begins, and one when a part has ended."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._part = ""

    def begin(self, planned: Sequence[PartPlan], budget_s: float) -> None:
        """Say what will run."""
        coming = [plan.part.value for plan in planned if not plan.reason]
        self._write(
            _("validate: {parts}; budget {budget_s:.0f} s").format(
                parts=listed(coming) or _("nothing to run"), budget_s=budget_s
            )
        )

    def part(self, part: ValidationPart) -> None:
        """Remember which part the next calls are of."""
        self._part = part.value

    def call(self, title: str, expected_s: float, left_s: float) -> None:
        """Say what is run."""
        left = max(0.0, left_s)
        self._write(
            _("{part}: {title} (about {expected_s:.0f} s; {left:.0f} s of the budget left)").format(
                part=self._part, title=title, expected_s=expected_s, left=left
            )
        )

    def returned(self, failed: Failed | None) -> None:
        """Say only what has failed."""
        if failed is not None:
            self._write(failure(self._part, failed))

    def part_done(self, report: PartReport) -> None:
        """Say how a part ended."""
        self._write(ended(report))

    def warn(self, text: str) -> None:
        """Say it."""
        self._write(text)

    def end(self) -> None:
        """Nothing is left on the screen."""

    def _write(self, text: str) -> None:
        write(self._stream, plain(text))


class Bars:
    """A bar of the budget and one of what is running; lines of what is done stand above them."""

    def __init__(self, stream: TextIO) -> None:
        console = Console(file=stream, markup=False, emoji=False, highlight=False, soft_wrap=True)
        self._bars = Progress(
            TextColumn("{task.fields[label]:<13}", markup=False),
            _Clock(),
            TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
        )
        self._coming: list[ValidationPart] = []
        self._budget: TaskID | None = None
        self._call: TaskID | None = None
        self._part = ""

    def begin(self, planned: Sequence[PartPlan], budget_s: float) -> None:
        """Draw the budget."""
        self._coming = [plan.part for plan in planned if not plan.reason]
        self._budget = self._bars.add_task(self._then(), total=budget_s, label=_("budget"))
        self._bars.start()

    def part(self, part: ValidationPart) -> None:
        """Take it off what is to come."""
        self._part = part.value
        self._coming = [other for other in self._coming if other is not part]
        if self._budget is not None:
            self._bars.update(self._budget, description=self._then())

    def call(self, title: str, expected_s: float, left_s: float) -> None:
        """Draw what is running."""
        if self._budget is not None:
            spent = (self._bars.tasks[0].total or 0) - left_s
            self._bars.tasks[0].start_time = time.monotonic() - spent
        self._call = self._bars.add_task(plain(title), total=expected_s, label=self._part)

    def returned(self, failed: Failed | None) -> None:
        """Take its bar away."""
        if self._call is not None:
            self._bars.remove_task(self._call)
            self._call = None
        if failed is not None:
            self.warn(failure(self._part, failed))

    def part_done(self, report: PartReport) -> None:
        """A line that stays."""
        self.warn(ended(report))

    def warn(self, text: str) -> None:
        """A line that stays."""
        self._bars.console.print(Text(plain(text)))

    def end(self) -> None:
        """Take the bars away."""
        self._bars.stop()

    def _then(self) -> str:
        if not self._coming:
            return _("last part")
        return _("then {parts}").format(parts=listed(part.value for part in self._coming))


class _Clock(ProgressColumn):
    """Time passed of the time expected, as a bar and in seconds."""

    max_refresh = None

    def render(self, task: Task) -> Text:
        """Never more than full: what takes longer than expected is not done."""
        total, passed = task.total or 1.0, task.elapsed or 0.0
        filled = round(min(1.0, passed / total) * _BAR)
        return Text.assemble(
            ("━" * filled, "green"), ("━" * (_BAR - filled), "dim"), f" {passed:.0f}/{total:.0f} s"
        )


def failure(part: str, failed: Failed) -> str:
    """What failed, in one line; CUDA's messages would fill several."""
    return shorten(f"{part}: {_(failed.why.value)}: {failed.message}", _MESSAGE, placeholder=" ...")


def ended(report: PartReport) -> str:
    """How a part ended, in one line."""
    reason = f" ({report.reason})" if report.reason else ""
    if report.status is Status.SKIPPED:
        return _("{part}: skipped{reason}").format(part=report.part.value, reason=reason)
    return _("{part}: {status} after {seconds:.0f} s{reason}").format(
        part=report.part.value, status=_(report.status.value), seconds=report.seconds, reason=reason
    )
