"""Drawings of a graph whose nodes stand on floors: boxes, and lines that lead down, as SVG.

A line over several floors passes each of them between the boxes. Lines to one box join on the way.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import mean
from typing import Union
from xml.sax.saxutils import escape

_LEAST_WIDTH = 360
_CHARACTER = 6.9  # of a fixed-width font of the size that the style sheet sets
_SHORTEST = 5  # characters
_PADDING, _GAP, _BEND = 10, 7, 5
_MARGIN = 3
_BOX, _FLOOR, _FLOOR_MARGIN = 30, 54, 8
_ARROW = 4
_SWEEPS = 24

Bend = tuple[str, int]
"""Where lines to one box pass a floor: the box, the floor."""
Spot = Union[str, Bend]  # noqa: UP007 - evaluated in Python 3.10
Segment = tuple[Spot, Spot]
"""A part of a line, from one floor to the next."""


@dataclass(frozen=True)
class Plan:
    """Where everything stands."""

    rows: tuple[tuple[Spot, ...], ...]  # from the top, each from the left
    segments: frozenset[Segment]
    middles: Mapping[Spot, float]  # of boxes and bends, from the left edge
    width: float

    def place(self, spot: Spot) -> tuple[float, int]:
        """The middle of a box or a bend, and its top."""
        floor = next(floor for floor, row in enumerate(self.rows) if spot in row)
        return self.middles[spot], floor * _FLOOR + (_FLOOR - _BOX) // 2


def plan(floors: Sequence[Collection[str]], lines: Collection[tuple[str, str]]) -> Plan:
    """Places for the boxes of ``floors`` and for lines, each from a box to one on a lower floor."""
    floor_of = {box: floor for floor, boxes in enumerate(floors) for box in boxes}
    segments = frozenset(segment for line in lines for segment in _segments(line, floor_of))
    rows: list[list[Spot]] = [list(boxes) for boxes in floors]
    for bend in sorted({spot for segment in segments for spot in segment if isinstance(spot, tuple)}):
        rows[bend[1]].append(bend)
    ordered = _ordered(rows, segments)
    width = max([_LEAST_WIDTH, *map(_row_width, ordered)])
    return Plan(
        rows=tuple(map(tuple, ordered)),
        segments=segments,
        middles=_middles(ordered, _neighbours(segments), width),
        width=width,
    )


def _segments(line: tuple[str, str], floor_of: Mapping[str, int]) -> Iterator[Segment]:
    source, target = line
    if floor_of[source] >= floor_of[target]:
        raise ValueError(f"the line from {source} to {target} does not lead down")
    between = [(target, floor) for floor in range(floor_of[source] + 1, floor_of[target])]
    spots: list[Spot] = [source, *between, target]
    yield from pairwise(spots)


def _neighbours(segments: Collection[Segment]) -> dict[Spot, list[Spot]]:
    neighbours: dict[Spot, list[Spot]] = {}
    for upper, lower in sorted(segments, key=str):
        neighbours.setdefault(upper, []).append(lower)
        neighbours.setdefault(lower, []).append(upper)
    return neighbours


def _ordered(rows: Sequence[list[Spot]], segments: Collection[Segment]) -> list[list[Spot]]:
    """The rows with few crossings: each in the order of what it is joined to above, then below."""
    neighbours = _neighbours(segments)
    best = current = [list(row) for row in rows]
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        current = [list(row) for row in current]
        order = range(1, len(rows)) if down else range(len(rows) - 2, -1, -1)
        for floor in order:
            other = current[floor - 1 if down else floor + 1]
            place = {spot: index / len(other) for index, spot in enumerate(other)}
            here = {spot: index / len(current[floor]) for index, spot in enumerate(current[floor])}

            def wish(spot: Spot, place: dict[Spot, float] = place, here: dict[Spot, float] = here) -> float:
                places = [place[near] for near in neighbours.get(spot, ()) if near in place]
                return mean(places) if places else here[spot]

            current[floor].sort(key=wish)
        if crossings(current, segments) < crossings(best, segments):
            best = current
    return best


def crossings(rows: Sequence[Sequence[Spot]], segments: Collection[Segment]) -> int:
    """How many pairs of segments cross."""
    place = {spot: (floor, index) for floor, row in enumerate(rows) for index, spot in enumerate(row)}
    by_floor: dict[int, list[tuple[int, int]]] = {}
    for upper, lower in segments:
        by_floor.setdefault(place[upper][0], []).append((place[upper][1], place[lower][1]))
    return sum(
        (first[0] - second[0]) * (first[1] - second[1]) < 0
        for pairs in by_floor.values()
        for first, second in combinations(pairs, 2)
    )


def box_width(name: str) -> float:
    """As wide as its name, but wide enough for the words under a short one."""
    return max(len(name), _SHORTEST) * _CHARACTER + _PADDING


def _spot_width(spot: Spot) -> float:
    return box_width(spot) if isinstance(spot, str) else _BEND


def _row_width(row: Sequence[Spot]) -> float:
    """What a floor needs at least."""
    return sum(map(_spot_width, row)) + _GAP * (len(row) - 1) + 2 * _MARGIN


def _middles(
    rows: Sequence[Sequence[Spot]], neighbours: Mapping[Spot, Sequence[Spot]], width: float
) -> dict[Spot, float]:
    """As near to what they are joined to as the others of their row let them, all of it centred."""
    middles = dict.fromkeys((spot for row in rows for spot in row), width / 2)
    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wishes = [
                mean([middles[near] for near in neighbours.get(spot, ())] or [width / 2]) for spot in row
            ]
            middles.update(zip(row, _apart(row, wishes, width), strict=True))
    left = min(middle - _spot_width(spot) / 2 for spot, middle in middles.items())
    right = max(middle + _spot_width(spot) / 2 for spot, middle in middles.items())
    return {spot: middle + (width - left - right) / 2 for spot, middle in middles.items()}


def _apart(row: Sequence[Spot], wishes: Sequence[float], width: float) -> list[float]:
    """The middles nearest to the wishes that keep the order and do not overlap."""
    packed = [
        _MARGIN + sum(map(_spot_width, row[:index])) + _GAP * index + _spot_width(spot) / 2
        for index, spot in enumerate(row)
    ]
    blocks: list[list[float]] = []  # how far spots that touch each other move from where they are packed
    for wish, middle in zip(wishes, packed, strict=True):
        blocks.append([wish - middle])
        while len(blocks) > 1 and mean(blocks[-2]) > mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    farthest = width - _row_width(row)
    moves = [min(max(mean(block), 0), farthest) for block in blocks for _ in block]
    return [middle + move for middle, move in zip(packed, moves, strict=True)]


def svg(drawn: Plan, notes: Mapping[str, str], *, title: str, description: str) -> str:
    """The drawing with its style left to ``_static/site.css``.

    Args:
        drawn: where everything stands.
        notes: what stands under the name of each box.
        title: what the drawing is.
        description: what there is to see, for those who do not see it.
    """
    floors = len(drawn.rows)
    parts = [
        f'<svg class="floor-plan" role="img" viewBox="0 0 {drawn.width:.0f} {floors * _FLOOR}">',
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>",
        *(_floor(floor, drawn.width) for floor in range(floors)),
        *(_line(drawn, *segment) for segment in sorted(drawn.segments, key=str)),
        *(_box(drawn, spot, notes[spot]) for row in drawn.rows for spot in row if isinstance(spot, str)),
        "</svg>",
    ]
    return "".join(parts)


def _floor(floor: int, width: float) -> str:
    y, height = floor * _FLOOR + _FLOOR_MARGIN, _FLOOR - 2 * _FLOOR_MARGIN
    return f'<rect class="floor" x="0" y="{y}" width="{width:.0f}" height="{height}" rx="3"/>'


def _line(drawn: Plan, upper: Spot, lower: Spot) -> str:
    """A segment, with the way through its upper bend, and with an arrow where it comes to a box."""
    (x, y), (to_x, to_y) = drawn.place(upper), drawn.place(lower)
    half = (y + _BOX + to_y) / 2
    way = f"M{x:.1f} {y if isinstance(upper, tuple) else y + _BOX}V{y + _BOX}"
    path = f'<path class="line" d="{way}C{x:.1f} {half} {to_x:.1f} {half} {to_x:.1f} {to_y}"/>'
    if isinstance(lower, tuple):
        return path
    return f'{path}<path class="arrow" d="M{to_x:.1f} {to_y}l-{_ARROW} -{2 * _ARROW}h{2 * _ARROW}z"/>'


def _box(drawn: Plan, name: str, note: str) -> str:
    (x, y), width = drawn.place(name), box_width(name)
    return (
        f'<rect class="box" x="{x - width / 2:.1f}" y="{y}" width="{width:.1f}" height="{_BOX}" rx="3"/>'
        f'<text class="name" x="{x:.1f}" y="{y + 13}">{escape(name)}</text>'
        f'<text class="note" x="{x:.1f}" y="{y + 25}">{escape(note)}</text>'
    )
