"""Judges the inputs of one command: few in this process, many in several, with a bar while somebody waits."""

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TypeVar

from tuner.cli.judging import Judging, judged
from tuner.inputs.several import Input
from tuner.language import ENGLISH, chosen
from tuner.review.checked import Checked
from tuner.review.kept import Kept, packed
from tuner.review.likeness import by_likeness
from tuner.review.many import FEW, judged_in_turn
from tuner.review.review import Inputs

# Objects that a process makes before it looks for garbage. Inputs leave little of it: a few dozen that know
# each other. Most of what is made is remembered for the next inputs, and is looked through in vain.
_COLLECT_AFTER = 200_000

Result = TypeVar("Result")


def judged_inputs(inputs: Sequence[Input], judging: Judging) -> Inputs:
    """What is found in each input, in their order."""
    prepare = partial(_begin, chosen())
    if len(inputs) < FEW:
        results = judged_in_turn(inputs, partial(judged, judging=judging), prepare)
        return Kept.of(Checked, results, len(inputs))
    gc.set_threshold(_COLLECT_AFTER)
    places = by_likeness(inputs)
    alike = [inputs[place] for place in places]
    kept = Kept(Checked, len(inputs))
    # Closed, so that the processes end first when something comes in between, such as Ctrl-C.
    with closing(judged_in_turn(alike, partial(_packed, judging=judging), prepare)) as several:
        for place, result in zip(places, with_bar(several, len(inputs)), strict=True):
            kept.put(place, result)
    return kept


def with_bar(results: Iterable[Result], total: int) -> Iterator[Result]:
    """The same one after another, counted by a bar on a terminal's standard error until the last one."""
    if not sys.stderr.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield from progress.track(results, total=total)


def _packed(given: Input, judging: Judging) -> Checked | bytes:
    return packed(judged(given, judging))


def _begin(language: str) -> None:
    """Give a process the language of the first one."""
    gc.set_threshold(_COLLECT_AFTER)
    if language != ENGLISH:
        from tuner.catalogues import catalogue
        from tuner.language import choose

        choose(catalogue(language, source=""))
