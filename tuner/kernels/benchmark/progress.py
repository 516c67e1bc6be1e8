"""What runs and what remains, on standard error."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class StepCounter:
    """Counts steps: a bar on a terminal, a line for each where there is none."""

    def __init__(self, total: int, console: Console) -> None:
        self._total = total
        self._done = 0
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=total)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Within it the bar is on the screen."""
        with self._bar:
            yield

    def begin(self, text: str) -> None:
        """The next step, whose predecessor is done."""
        self._bar.update(self._task, completed=self._done, description=text)
        self._done += 1
        if not self._console.is_terminal:
            self._console.print(
                f"{self._done}/{self._total} {text}", markup=False, highlight=False, soft_wrap=True
            )

    def detail(self, text: str) -> None:
        """Say more of the step that runs, on a bar only."""
        self._bar.update(self._task, description=text)

    def skip(self, count: int) -> None:
        """Steps that will not be taken."""
        self._done += count
