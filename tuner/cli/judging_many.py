"""Judges the inputs of one command: few in this process, many in several."""

import gc
from collections.abc import Sequence
from functools import partial

from tuner.cli.judging import Judging, judged
from tuner.inputs.several import Input
from tuner.language import ENGLISH, chosen
from tuner.review.checked import Checked
from tuner.review.many import judged_in_turn


def judged_inputs(inputs: Sequence[Input], judging: Judging) -> tuple[Checked, ...]:
    """What is found in each input, in their order."""
    prepare = partial(_speak, chosen(), gc.get_threshold()[0])
    return tuple(judged_in_turn(inputs, partial(judged, judging=judging), prepare))


def _speak(language: str, collect_after: int) -> None:
    """Give a process the language of this one, and collect garbage as seldom."""
    gc.set_threshold(collect_after)
    if language != ENGLISH:
        from tuner.catalogues import catalogue
        from tuner.language import choose

        choose(catalogue(language, source=""))
