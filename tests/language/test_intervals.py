"""An interval whose ends are written alike is one number, wherever it is told."""

from functools import partial

import pytest

from tuner.catalogues import catalogue
from tuner.evidence import Evidence
from tuner.language import using
from tuner.render import numbers
from tuner.rules import wording
from tuner.timing import Interval, StepChange
from tuner.units import GIB

CARD = "h100-sxm"


def seconds(middle: float, low: float, high: float) -> Interval:
    return Interval(seconds=middle, low_s=low, high_s=high, evidence=Evidence.MODELLED, rates_of=CARD)


def change(share: float, low: float, high: float) -> StepChange:
    return StepChange(seconds=100 * share, share=share, low_share=low, high_share=high)


NARROW, WIDE = seconds(41.2, 41.1, 41.3), seconds(41.2, 36.1, 47.2)
ONE, SOME = change(0.01, 0.0099, 0.0101), change(0.06, 0.05, 0.07)
UNSIZED = change(0.06, 0.02, 0.07)
LESS = change(-0.06, -0.0604, -0.0596)


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (partial(numbers.seconds, WIDE, CARD), "41 s (36 to 47, modelled)"),
        (partial(numbers.seconds, NARROW, CARD), "41 s (modelled)"),
        (partial(numbers.phase_seconds, WIDE), "41 (36 to 47)"),
        (partial(numbers.phase_seconds, NARROW), "41"),
        (partial(wording.spent, NARROW), "41 s"),
        (partial(numbers.step_change, 100, 106, SOME), "step 6% longer (5% to 7%, modelled)"),
        (partial(numbers.step_change, 100, 101, ONE), "step 1% longer (modelled)"),
        (partial(numbers.step_change, 100, 94, LESS), "step 6% shorter (modelled)"),
        (
            partial(numbers.seconds_change, 39, WIDE, SOME, CARD),
            "step 39 -> 41 s (36 to 47, modelled), 6% (5% to 7%) longer",
        ),
        (
            partial(numbers.seconds_change, 39, NARROW, LESS, CARD),
            "step 39 -> 41 s (modelled), 6% longer",
        ),
        (
            partial(numbers.seconds_change, 39, WIDE, UNSIZED, CARD),
            "step 39 -> 41 s (36 to 47, modelled), 6% (2% to 7%) longer (that is sure, by how much is not)",
        ),
        (partial(numbers.peak, 60 * GIB, (59 * GIB, 61 * GIB)), "60.0 GiB (59.0 to 61.0)"),
        (partial(numbers.peak, 60 * GIB, (60 * GIB, 60 * GIB + 1)), "60.0 GiB"),
        (partial(numbers.gib_interval, (60 * GIB, 60 * GIB + 1)), "60.0"),
        (partial(wording.up_to, 60 * GIB, 61 * GIB), "60.0 GiB (up to 61.0 GiB)"),
        (partial(wording.up_to, 60 * GIB, 60 * GIB + 1), "60.0 GiB"),
    ],
)
def test_ends_that_are_written_alike_are_one_number(told: partial[str], text: str) -> None:
    assert told() == text


def test_the_same_in_chinese() -> None:
    with using(catalogue("zh", source="--lang")):
        assert numbers.seconds(WIDE, CARD) == "41 s（36 到 47，估算）"
        assert numbers.seconds(NARROW, CARD) == "41 s（估算）"
        assert numbers.step_change(100, 101, ONE) == "训练步延长 1%（估算）"
