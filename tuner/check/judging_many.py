"""Judges the inputs of one command: few in this process, many in several."""

import gc
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from tuner.check.judging import Judging, judge_input
from tuner.files import STANDARD_INPUT, is_there
from tuner.inputs.named_inputs import Input
from tuner.language import ENGLISH, chosen
from tuner.render.bar import with_bar
from tuner.review.input_findings import InputFindings
from tuner.review.likeness import by_likeness
from tuner.review.many import FEW, judged_in_turn
from tuner.review.result_store import ResultStore, packed
from tuner.review.review import ReviewedInputs

# Objects that a process makes before it looks for garbage. Inputs leave little of it: a few dozen that know
# each other. Most of what is made is remembered for the next inputs, and is looked through in vain.
_COLLECT_AFTER = 200_000

Result = TypeVar("Result", bound=Struct)
Item = TypeVar("Item")


def judged_inputs(inputs: Sequence[Input], judging: Judging) -> ReviewedInputs:
    """What is found in each input, in their order."""
    return of_each(InputFindings, inputs, partial(judge_input, judging=judging))


def of_each(
    kind: type[Result], inputs: Sequence[Input], judge: Callable[[Input], Result]
) -> ResultStore[Result]:
    """What a function finds of each input, in their order.

    Args:
        kind: what it returns.
        inputs: what it is called with.
        judge: a function of a module, a part of one, or an object, since it goes to other processes.
    """
    prepare = partial(_begin, chosen())
    if len(inputs) < FEW:
        return ResultStore.of(kind, judged_in_turn(inputs, judge, prepare), len(inputs))
    gc.set_threshold(_COLLECT_AFTER)
    store = ResultStore(kind, len(inputs))
    own = {place for place, given in enumerate(inputs) if _only_here(given)}
    for place in sorted(own):
        store.put(place, judge(inputs[place]))
    places = [place for place in by_likeness(inputs) if place not in own]
    alike = [inputs[place] for place in places]
    # Closed, so that the processes end first when something comes in between, such as Ctrl-C.
    with closing(judged_in_turn(alike, partial(_packed, judge=judge), prepare)) as several:
        for place, result in zip(places, with_bar(several, len(places)), strict=True):
            store.put(place, result)
    return store


def _only_here(given: Input) -> bool:
    """Whether only the first process can read an input: standard input, a pipe, what ``<(...)`` names."""
    if given.pasted:
        return False
    return given.config == STANDARD_INPUT or is_there(given.config, _is_stream)


def _is_stream(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def _packed(given: Input, judge: Callable[[Input], Result]) -> Result | bytes:
    return packed(judge(given))


def _begin(language: str) -> None:
    """Give a process the language of the first one."""
    gc.set_threshold(_COLLECT_AFTER)
    if language != ENGLISH:
        from tuner.catalogues import catalogue
        from tuner.language import choose

        choose(catalogue(language, source=""))
