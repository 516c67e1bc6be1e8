"""The phases of a step as an SVG picture: one bar a phase, its parts told apart, the card marked.

It takes the colours and fonts of the page that it stands on, and needs nothing from outside.
"""

from collections.abc import Mapping
from html import escape

from tuner.memory import Estimate, PhaseEstimate
from tuner.render.axis_ticks import even_ticks
from tuner.render.bars import PARTS, BarPart
from tuner.render.numbers import gib
from tuner.units import GIB

_WIDTH, _MARGIN = 420, 4
_LINE, _BAR, _ROW = 15, 16, 42  # heights: of a line of text, of a bar, of a phase
_LETTER = 9  # the least width of a part that shows its letter
_LEGEND = 2  # parts in a row of the legend
_STEPS = (0, 95, 135, 175, 215, 255)  # of a colour channel, in the palette of 256 colours


def phase_picture(estimate: Estimate, *, labels: Mapping[str, str], name: str = "phases") -> str:
    """The picture of an estimate.

    Args:
        estimate: what is drawn.
        labels: texts in the reader's language, by what :data:`PARTS` calls the parts; ``card`` for the mark.
        name: what the classes in it begin with.
    """
    phases = estimate.telling_phases
    scale = (_WIDTH - 2 * _MARGIN) / max(estimate.capacity_bytes, estimate.worst.peak_bytes)
    present = [part for part in PARTS if any(phase.bytes_of(part.item) for phase in phases)]
    top = _LINE + 4
    bottom = top + _ROW * len(phases)
    legend = bottom + _LINE + 10
    height = legend + _LINE * -(-len(present) // _LEGEND) + 4
    mark = _MARGIN + estimate.capacity_bytes * scale
    card = escape(f"{labels['card']} {gib(estimate.capacity_bytes)}")
    drawn = [
        f'<text x="{mark:.1f}" y="{_LINE - 3}" text-anchor="end" class="{name}-note">{card} ▾</text>',
        *(_phase(phase, top + _ROW * row, scale, labels, name) for row, phase in enumerate(phases)),
        *(_tick(size, bottom, scale) for size in even_ticks(0, (_WIDTH - 2 * _MARGIN) / scale / GIB)),
        f'<line x1="{mark:.1f}" x2="{mark:.1f}" y1="{_LINE}" y2="{bottom - 4}" stroke="currentColor" '
        f'stroke-dasharray="3 2"/>',
        *(_swatch(part, place, legend, labels) for place, part in enumerate(present)),
    ]
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" xmlns="http://www.w3.org/2000/svg" class="{name}" '
        f'font-size="11" fill="currentColor">{"".join(drawn)}</svg>'
    )


def _tick(size: float, bottom: float, scale: float) -> str:
    """A number of the axis below the bars, in GiB; the first one has the unit."""
    left, unit = _MARGIN + size * GIB * scale, "" if size else " GiB"
    anchor = "middle" if size else "start"
    return (
        f'<line x1="{left:.1f}" x2="{left:.1f}" y1="{bottom - 6}" y2="{bottom - 2}" stroke="currentColor"/>'
        f'<text x="{left:.1f}" y="{bottom + 10}" text-anchor="{anchor}">{size:g}{unit}</text>'
    )


def _phase(phase: PhaseEstimate, top: float, scale: float, labels: Mapping[str, str], name: str) -> str:
    """Its name, its peak, and below them the bar."""
    low, high = (gib(end) for end in phase.interval)
    reach = "" if low == high else f"{low} … {high}"
    drawn = [
        f'<text x="{_MARGIN}" y="{top + 11}" font-family="monospace">{phase.phase.value}</text>',
        f'<text x="{_MARGIN + 110}" y="{top + 11}" class="{name}-peak">{gib(phase.peak_bytes)}'
        f'<tspan class="{name}-note" dx="6">{reach}</tspan></text>',
    ]
    left = float(_MARGIN)
    for part in PARTS:
        size = phase.bytes_of(part.item)
        if size:
            drawn.append(_part(part, size, left, top + _LINE, size * scale, labels))
            left += size * scale
    return "".join(drawn)


def _part(part: BarPart, size: int, left: float, top: float, width: float, labels: Mapping[str, str]) -> str:
    """A piece of a bar, with its letter where there is room, and its size for who points at it."""
    at = f'x="{left + width / 2:.1f}" y="{top + 12}"'
    letter = f'<text {at} text-anchor="middle" fill="#111">{part.letter}</text>' if width >= _LETTER else ""
    return (
        f"<g><title>{escape(labels[part.label])}: {gib(size)}</title>"
        f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}" fill="{colour(part)}" '
        f'stroke="#fff" stroke-width=".6"/>{letter}</g>'
    )


def _swatch(part: BarPart, place: int, top: float, labels: Mapping[str, str]) -> str:
    """A part in the legend: its colour, its letter and what it is."""
    row, column = divmod(place, _LEGEND)
    left, y = _MARGIN + column * _WIDTH / _LEGEND, top + row * _LINE
    return (
        f'<rect x="{left:.1f}" y="{y}" width="12" height="12" fill="{colour(part)}"/>'
        f'<text x="{left + 6:.1f}" y="{y + 10}" text-anchor="middle" fill="#111">{part.letter}</text>'
        f'<text x="{left + 17:.1f}" y="{y + 10}">{escape(labels[part.label])}</text>'
    )


def colour(part: BarPart) -> str:
    """The colour that a terminal of 256 colours shows for a part, as the web writes it."""
    if part.colour >= 232:
        level = 8 + 10 * (part.colour - 232)
        return f"#{level:02x}{level:02x}{level:02x}"
    cube = part.colour - 16
    return "#" + "".join(f"{_STEPS[cube // 6**power % 6]:02x}" for power in (2, 1, 0))
