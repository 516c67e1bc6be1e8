"""A bar on a terminal's standard error, which counts what comes while somebody waits."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def with_bar(results: Iterable[Item], total: int) -> Iterator[Item]:
    """Results as they come, counted by a bar on a terminal's standard error until the last one."""
    if not sys.stderr.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield from progress.track(results, total=total)


def counted_files(files: Iterator[str]) -> Iterator[str]:
    """The files of a folder as they are looked at, counted on a terminal's standard error meanwhile."""
    if not sys.stderr.isatty():
        yield from files
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn

    columns = (SpinnerColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield from progress.track(files)
