"""Predicted seconds against measured ones, of what recorded runs of ``tuner validate`` timed."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from figures import Drawing
from figures.accuracy_scatter import DATA
from figures.plot import COLOURS, MARKERS, axes
from tuner.validate.report.schema import ValidationFile

WORDS = {
    "measured": "measured, ms",
    "predicted": "predicted, ms",
    "run": "run",
    "part": "part",
    "figure": "what was timed",
    "error": "error",
    # What the reports say of the times that they have, in the reports' own English.
    "the forward pass alone": "the forward pass alone",
    "forward and backward pass": "forward and backward pass",
    "log-probability only": "log-probability only",
    "one decoding step of vLLM's own engine": "one decoding step of vLLM's own engine",
    "256 sequences of mean length": "256 sequences of mean length",
}
_PARTS = re.compile(r"(: |, )")  # of what a report says of a time
_TICKS = (5, 10, 20, 50, 100, 200)


class Timed(Struct, frozen=True, kw_only=True):
    """One time that was predicted and measured."""

    run: str  # the report
    part: str
    what: str
    predicted_s: float
    measured_s: float

    @property
    def error(self) -> float:
        """As a share of what was measured; above 0: predicted too long."""
        return self.predicted_s / self.measured_s - 1


def timed() -> list[Timed]:
    """Every time of the recorded runs that had a prediction."""
    found = []
    for path in sorted(DATA.glob("validate-*.json")):
        report = ValidationFile.model_validate_json(path.read_text(encoding="utf-8")).validation
        found += [
            Timed(
                run=path.stem.removeprefix("validate-"),
                part=part.part.value,
                what=re.sub(", median of interleaved rounds$", "", item.what),
                predicted_s=item.predicted,
                measured_s=item.measured,
            )
            for part in report.parts
            for item in part.measurements
            if item.unit == "seconds" and item.predicted is not None and item.measured is not None
        ]
    return found


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """A point for each time, a shape for each part of a run; there are no arguments."""
    points = timed()
    with axes(name="seconds", height=3.6) as ((axis,), finished):
        for place, part in enumerate(dict.fromkeys(point.part for point in points)):
            shown = [point for point in points if point.part == part]
            axis.scatter(
                [1000 * point.measured_s for point in shown],
                [1000 * point.predicted_s for point in shown],
                marker=MARKERS[place],
                s=20,
                facecolors="none",
                edgecolors=COLOURS[place],
                label=part,
            )
        ends = [1000 * end([point.measured_s for point in points]) for end in (min, max)]
        axis.plot(ends, ends, color="#8c8c8c", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_yscale("log")
        ticks = [tick for tick in _TICKS if ends[0] * 0.8 <= tick <= ends[1] * 1.2]
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.set_yticks(ticks, [str(tick) for tick in ticks])
        axis.minorticks_off()
        axis.set_xlabel(words["measured"])
        axis.set_ylabel(words["predicted"])
        axis.legend(loc="lower right")
    rows = tuple(
        (
            point.run,
            point.part,
            "".join(words.get(piece, piece) for piece in _PARTS.split(point.what)),
            f"{1000 * point.predicted_s:.1f}",
            f"{1000 * point.measured_s:.1f}",
            f"{point.error:+.0%}",
        )
        for point in points
    )
    columns = ("run", "part", "figure", "predicted", "measured", "error")
    return Drawing(svg=finished[0], header=tuple(words[name] for name in columns), rows=rows)
