"""What numbers and cards take against one another as an SVG picture: seconds across, their cost upwards.

Each point has its name beside it and the interval of its seconds as a bar; those that no other one beats are
filled and joined. It takes the colours and fonts of the page that it stands on, and needs nothing from
outside.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import log

from msgspec import Struct

from tuner.render.axis_ticks import even_ticks, log_ticks
from tuner.render.columns import cells

_WIDTH, _HEIGHT = 480, 300  # of the part between the axes and their numbers
_LEFT, _RIGHT, _TOP, _BELOW = 48, 16, 30, 40
_LINE = 17  # of the legend
_LETTER, _TEXT = 6.2, 11  # width and height of the text of a label
_AWAY = 8  # of a label from its point
_SIZE = 4.5  # of a mark
_ROOM = 0.12  # of an axis beyond the outermost points
# Okabe and Ito's colours, safe for colour-blind readers; none of them is lost on white or on black.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c8c8c")
_MARKS = 4  # forms that tell cards apart in grey, too


class Point(Struct, frozen=True, kw_only=True):
    """One number of one card."""

    label: str
    card: str
    seconds: float
    low_s: float
    high_s: float
    cost: float
    unbeaten: bool


class _Frame(Struct, frozen=True, kw_only=True):
    """Where numbers lie in the picture."""

    across: tuple[float, float]
    upwards: tuple[float, float]

    def x(self, seconds: float) -> float:
        low, high = self.across
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * log(seconds / low) / log(high / low)

    def y(self, cost: float) -> float:
        low, high = self.upwards
        return _TOP + _HEIGHT * (high - cost) / (high - low)


class TradeOffPicture(Struct, frozen=True, kw_only=True):
    """What a picture shows."""

    points: tuple[Point, ...]  # one at least
    cards: tuple[str, ...]  # in the order of their colours
    labels: Mapping[str, str]
    """Texts in the reader's language: ``across``, ``upwards``, ``unbeaten`` and ``beaten``."""


def trade_off_picture(picture: TradeOffPicture, name: str = "trade-off") -> str:
    """A picture for a page, on which no other one has this name as its class."""
    height, drawn = _drawn(picture)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" xmlns="http://www.w3.org/2000/svg" class="{name}" '
        f'font-size="{_TEXT}" fill="currentColor">{drawn}</svg>'
    )


def pictures_alone(pictures: Sequence[TradeOffPicture], *, title: str, language: str) -> str:
    """Pictures below one another as a file of its own, dark on white wherever it is shown."""
    top, parts = 28, []
    for picture in pictures:
        height, drawn = _drawn(picture)
        parts.append(f'<g transform="translate(0 {top})">{drawn}</g>')
        top += height + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" width="{_WIDTH}" '
        f'height="{top}" lang="{language}" role="img" font-family="system-ui, sans-serif" '
        f'font-size="{_TEXT}" fill="#1b1b1b" color="#1b1b1b"><title>{escape(title)}</title>'
        f'<rect width="{_WIDTH}" height="{top}" fill="#fff"/>'
        f'<text x="8" y="19" font-size="13" font-weight="600">{escape(title)}</text>{"".join(parts)}</svg>\n'
    )


def _drawn(picture: TradeOffPicture) -> tuple[int, str]:
    """The height of a picture, and what is in it."""
    points, cards, labels = picture.points, picture.cards, picture.labels
    frame, bottom = _frame(points), _TOP + _HEIGHT
    kept = sorted((point for point in points if point.unbeaten), key=lambda one: one.seconds)
    way = " ".join(f"{frame.x(one.seconds):.1f},{frame.y(one.cost):.1f}" for one in kept)
    legend = bottom + _BELOW + 10
    shown = {point.card for point in points}
    names = [(card, place, True) for place, card in enumerate(cards) if card in shown]
    kinds = [(labels["unbeaten"], 0, True), (labels["beaten"], 0, False)]
    parts = [
        *_axes(frame, labels),
        f'<polyline points="{way}" fill="none" stroke="currentColor" stroke-dasharray="2 3" opacity=".7"/>',
        *(_bar(point, frame, cards) for point in points),
        *(_mark_of(point, frame, cards) for point in points),
        *_names(points, frame),
        *_legend(names, legend, coloured=True),
        *_legend(kinds, legend + _LINE, coloured=False),
    ]
    return legend + 2 * _LINE, "".join(parts)


def _frame(points: Sequence[Point]) -> _Frame:
    low, high = min(one.low_s for one in points), max(one.high_s for one in points)
    factor = max(1.1, (high / low) ** _ROOM)
    least, most = min(one.cost for one in points), max(one.cost for one in points)
    room = max((most - least) * _ROOM, 0.05 * most) or 1.0
    return _Frame(across=(low / factor, high * factor), upwards=(max(0.0, least - room), most + room))


def _axes(frame: _Frame, labels: Mapping[str, str]) -> list[str]:
    """Both axes with round numbers, faint lines across, and what is counted."""
    right, bottom = _WIDTH - _RIGHT, _TOP + _HEIGHT
    parts = [
        f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="currentColor"/>',
        f'<text x="4" y="12">{escape(labels["upwards"])}</text>',
        f'<text x="{right}" y="{bottom + 34}" text-anchor="end">{escape(labels["across"])}</text>',
    ]
    for number in even_ticks(*frame.upwards):
        y = frame.y(number)
        parts.append(
            f'<path d="M{_LEFT} {y:.1f}H{right}" stroke="currentColor" opacity=".15"/>'
            f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{number:,.6g}</text>'
        )
    for number in log_ticks(*frame.across):
        x = frame.x(number)
        parts.append(
            f'<path d="M{x:.1f} {_TOP}V{bottom + 4}" stroke="currentColor" opacity=".15"/>'
            f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{number:,.6g}</text>'
        )
    return parts


def _bar(point: Point, frame: _Frame, cards: Sequence[str]) -> str:
    """The interval of the seconds, with its ends."""
    y, low, high = frame.y(point.cost), frame.x(point.low_s), frame.x(point.high_s)
    colour = _colour(cards.index(point.card))
    return (
        f'<path d="M{low:.1f} {y:.1f}H{high:.1f}M{low:.1f} {y - 3:.1f}v6M{high:.1f} {y - 3:.1f}v6" '
        f'stroke="{colour}" fill="none" opacity=".85"/>'
    )


def _mark_of(point: Point, frame: _Frame, cards: Sequence[str]) -> str:
    """The mark of a point, which says its numbers to who points at it."""
    place = cards.index(point.card)
    told = (
        f"{point.label}: {point.seconds:,.4g} s ({point.low_s:,.4g} … {point.high_s:,.4g}), {point.cost:,.3g}"
    )
    mark = _mark(frame.x(point.seconds), frame.y(point.cost), place, _colour(place), filled=point.unbeaten)
    return f"<g><title>{escape(told)}</title>{mark}</g>"


def _mark(x: float, y: float, place: int, colour: str, *, filled: bool) -> str:
    """A circle, a square, a triangle or a diamond."""
    size, wide, form = _SIZE, _SIZE + 1, place % _MARKS
    look = f'stroke="{colour}" stroke-width="1.6" fill="{colour if filled else "none"}"'
    if form == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" {look}/>'
    outlines = {
        1: f"M{x - size:.1f} {y - size:.1f}h{2 * size}v{2 * size}h{-2 * size}z",
        2: f"M{x:.1f} {y - size:.1f}l{size} {2 * size}h{-2 * size}z",
        3: f"M{x:.1f} {y - wide:.1f}l{wide} {wide}l{-wide} {wide}l{-wide} {-wide}z",
    }
    return f'<path d="{outlines[form]}" {look}/>'


def _colour(place: int) -> str:
    return _COLOURS[place % len(_COLOURS)]


def _names(points: Sequence[Point], frame: _Frame) -> list[str]:
    """The name of each point, beside it where nothing else is."""
    taken = [box for point in points for box in _boxes(point, frame)]
    parts = []
    for point in sorted(points, key=lambda one: not one.unbeaten):
        x, y = frame.x(point.seconds), frame.y(point.cost)
        box = _free(x, y, _LETTER * len(point.label), taken)
        taken.append(box)
        weight = ' font-weight="600"' if point.unbeaten else ""
        parts.append(f'<text x="{box.x[0]:.1f}" y="{box.y[1] - 2:.1f}"{weight}>{escape(point.label)}</text>')
    return parts


class _Box(Struct, frozen=True, kw_only=True):
    """What a label takes of the picture."""

    x: tuple[float, float]
    y: tuple[float, float]

    def shared(self, other: "_Box") -> float:
        """The area that both take."""
        wide = min(self.x[1], other.x[1]) - max(self.x[0], other.x[0])
        high = min(self.y[1], other.y[1]) - max(self.y[0], other.y[0])
        return max(0.0, wide) * max(0.0, high)


def _boxes(point: Point, frame: _Frame) -> Iterator[_Box]:
    """What a point takes: its mark, and its bar."""
    x, y = frame.x(point.seconds), frame.y(point.cost)
    yield _Box(x=(x - 6, x + 6), y=(y - 6, y + 6))
    yield _Box(x=(frame.x(point.low_s), frame.x(point.high_s)), y=(y - 2, y + 2))


def _free(x: float, y: float, width: float, taken: Sequence[_Box]) -> _Box:
    """A place near a point that shares least with what is there; of several the first."""
    lefts = (x - width / 2, x + _AWAY, x - _AWAY - width)
    tops = [
        y + side * away - _TEXT * (side < 0) for away in (_AWAY, 2 * _AWAY + 4, 4 * _AWAY) for side in (-1, 1)
    ]
    tops.append(y - _TEXT / 2)
    boxes = [
        _Box(x=(left, left + width), y=(top, top + _TEXT))
        for top in tops
        for left in (min(max(left, _LEFT + 2.0), _WIDTH - 2.0 - width) for left in lefts)
        if _TOP - 8 <= top <= _TOP + _HEIGHT - _TEXT
    ]
    return min(boxes, key=lambda box: sum(box.shared(other) for other in taken))


def _legend(entries: Sequence[tuple[str, int, bool]], top: float, *, coloured: bool) -> list[str]:
    """What marks stand for, in one row."""
    parts, left = [], float(_LEFT)
    for text, place, filled in entries:
        colour = _colour(place) if coloured else "currentColor"
        parts.append(_mark(left, top - 4, place, colour, filled=filled))
        parts.append(f'<text x="{left + 10:.1f}" y="{top}">{escape(text)}</text>')
        left += 26 + _LETTER * cells(text)
    return parts
