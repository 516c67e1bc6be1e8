"""The numbers that a reader looks for first, side by side at the head of a page."""

from collections.abc import Iterator
from html import escape

from tuner.advise import Advice, Combination, Verdict
from tuner.language import _
from tuner.render.numbers import gib, of_gib, percent
from tuner.rules.wording import duration, ends, seconds_ends
from tuner.timing import Interval

Tile = tuple[str, str, str]  # what it is, the number, and what has to be known of it


def tiles(advice: Advice) -> str:
    """The tiles as HTML; empty for a job of which nothing is modelled."""
    shown = "".join(
        f"<div><dt>{escape(name)}</dt><dd><strong>{escape(number)}</strong> {escape(note)}</dd></div>"
        for name, number, note in _tiles(advice)
    )
    return f'<dl class="tiles">{shown}</dl>' if shown else ""


def _tiles(advice: Advice) -> Iterator[Tile]:
    if advice.verdict is Verdict.CANNOT_SAY or not advice.estimate.telling_phases:
        return
    worst, capacity = advice.estimate.worst, advice.estimate.capacity_bytes
    of_card = _("of {card}, {phase}").format(card=of_gib(capacity), phase=worst.phase.value)
    yield _("Peak"), gib(worst.peak_bytes), of_card
    free = capacity - worst.peak_bytes
    if free >= 0:
        yield _("Stays free"), gib(free), percent(free / capacity)
    if advice.time.seconds > 0:
        yield _("Step"), _seconds(advice.step), _within(advice.step)
    if advice.combination is not None:
        yield from _with_block(advice.combination)


def _with_block(together: Combination) -> Iterator[Tile]:
    """The step with the block, and how much shorter it is where it is."""
    if together.time.seconds > 0:
        yield _("Step with the block"), _seconds(together.step), _within(together.step)
    gain = together.change
    if gain is not None and gain.share < 0:
        most, least = (percent(-share) for share in (gain.low_share, gain.high_share))
        yield _("Shorter by"), percent(-gain.share), ends(least, most)


def _seconds(interval: Interval) -> str:
    return _("{seconds} s").format(seconds=duration(interval.seconds))


def _within(interval: Interval) -> str:
    return ends(*seconds_ends(interval))
