"""Judges the inputs of one command: few in this process, many in several, with a bar while somebody waits."""

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from tuner.cli.judging import Judging, judged
from tuner.inputs.several import Input
from tuner.language import ENGLISH, chosen
from tuner.review.checked import Checked
from tuner.review.many import FEW, judged_in_turn


def judged_inputs(inputs: Sequence[Input], judging: Judging) -> tuple[Checked, ...]:
    """What is found in each input, in their order."""
    prepare = partial(_speak, chosen(), gc.get_threshold()[0])
    each = judged_in_turn(inputs, partial(judged, judging=judging), prepare)
    return tuple(each if len(inputs) < FEW else with_bar(each, len(inputs)))


def with_bar(each: Iterable[Checked], total: int) -> Iterator[Checked]:
    """The same one after another, counted by a bar on a terminal's standard error until the last one."""
    if not sys.stderr.isatty():
        yield from each
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield from progress.track(each, total=total)


def _speak(language: str, collect_after: int) -> None:
    """Give a process the language of this one, and collect garbage as seldom."""
    gc.set_threshold(collect_after)
    if language != ENGLISH:
        from tuner.catalogues import catalogue
        from tuner.language import choose

        choose(catalogue(language, source=""))
