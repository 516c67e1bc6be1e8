"""The seconds of a step as an SVG picture: one bar a phase, with the interval in which a run is expected."""

from collections.abc import Sequence
from html import escape

from tuner.hardware import Cluster
from tuner.render.axis_ticks import even_ticks
from tuner.rules.wording import duration
from tuner.timing import Interval, StepTime, phase_interval

_WIDTH, _LEFT, _RIGHT = 420, 118, 12
_BAR, _ROW, _AXIS = 14, 24, 18
_LEAST_SHARE = 0.005  # of the step; a shorter phase has no bar


def timed_phases(time: StepTime, cluster: Cluster) -> list[tuple[str, Interval]]:
    """The phases that the picture shows, in the order in which they run."""
    least = _LEAST_SHARE * time.seconds
    shown = (phase for phase in time.phases if phase.seconds >= least)
    return [(phase.phase.value, phase_interval(phase, cluster)) for phase in shown]


def seconds_picture(phases: Sequence[tuple[str, Interval]], *, most: float, unit: str) -> str:
    """The picture of some phases.

    Args:
        phases: their names and seconds.
        most: seconds at the right end, the same in pictures that stand beside one another.
        unit: the label of the axis.
    """
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    bottom = _ROW * len(phases) + 2
    drawn = [
        *(_tick(value, _LEFT + value * scale, bottom) for value in even_ticks(0, most)),
        *(_phase(name, seconds, _ROW * row, scale) for row, (name, seconds) in enumerate(phases)),
        f'<text x="{_LEFT - 8}" y="{bottom + 13}" text-anchor="end">{escape(unit)}</text>',
    ]
    return (
        f'<svg viewBox="0 0 {_WIDTH} {bottom + _AXIS}" xmlns="http://www.w3.org/2000/svg" class="seconds" '
        f'font-size="11" fill="currentColor">{"".join(drawn)}</svg>'
    )


def _tick(value: float, left: float, bottom: float) -> str:
    """A line through all bars, and its number below them."""
    return (
        f'<line x1="{left:.1f}" x2="{left:.1f}" y1="0" y2="{bottom}" stroke="currentColor" opacity=".18"/>'
        f'<text x="{left:.1f}" y="{bottom + 13}" text-anchor="middle">{value:g}</text>'
    )


def _phase(name: str, seconds: Interval, top: float, scale: float) -> str:
    """The name of a phase, its bar, and a line from the least to the most."""
    middle = top + 4 + _BAR / 2
    low, high = (_LEFT + end * scale for end in (seconds.low_s, seconds.high_s))
    title = f"{name}: {duration(seconds.seconds)} s, {duration(seconds.low_s)} … {duration(seconds.high_s)}"
    return (
        f"<g><title>{escape(title)}</title>"
        f'<text x="{_LEFT - 8}" y="{middle + 4}" text-anchor="end" font-family="monospace">{name}</text>'
        f'<rect x="{_LEFT}" y="{top + 4}" width="{seconds.seconds * scale:.1f}" height="{_BAR}" '
        f'class="bar"/>'
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}" stroke="currentColor" '
        f'stroke-width="1.5"/></g>'
    )
