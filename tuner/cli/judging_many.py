"""Judges the inputs of one command: few in this process, many in several, with a bar while somebody waits."""

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from tuner.cli.judging import Judging, judged
from tuner.inputs.several import Input
from tuner.language import ENGLISH, chosen
from tuner.review.checked import Checked
from tuner.review.likeness import by_likeness
from tuner.review.many import FEW, judged_in_turn

# Objects that a process makes before it looks for garbage. Inputs leave little of it: a few dozen that know
# each other. Most of what is made is remembered for the next inputs, and is looked through in vain.
_COLLECT_AFTER = 200_000


def judged_inputs(inputs: Sequence[Input], judging: Judging) -> tuple[Checked, ...]:
    """What is found in each input, in their order."""
    prepare = partial(_begin, chosen())
    judge = partial(judged, judging=judging)
    if len(inputs) < FEW:
        return tuple(judged_in_turn(inputs, judge, prepare))
    gc.set_threshold(_COLLECT_AFTER)
    places = by_likeness(inputs)
    each = judged_in_turn([inputs[place] for place in places], judge, prepare)
    by_place = dict(zip(places, with_bar(each, len(inputs)), strict=True))
    return tuple(by_place[place] for place in range(len(inputs)))


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


def _begin(language: str) -> None:
    """Give a process the language of the first one."""
    gc.set_threshold(_COLLECT_AFTER)
    if language != ENGLISH:
        from tuner.catalogues import catalogue
        from tuner.language import choose

        choose(catalogue(language, source=""))
