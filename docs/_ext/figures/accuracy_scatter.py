"""Predicted peaks against measured ones, of the passes that stand in ``validation/data``."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from figures import Drawing
from figures.plot import COLOURS, MARKERS, axes
from tuner.accuracy import Comparison, compare, read_measured
from tuner.units import GIB

WORDS = {
    "measured": "measured peak, GiB",
    "predicted": "predicted peak, GiB",
    "model": "model",
    "pass": "measurement of",
    "tokens": "tokens",
    "error": "error",
}
_DATA = Path(__file__).resolve().parents[2] / "validation/data"


def comparisons(names: Sequence[str]) -> list[Comparison]:
    """The passes of the files of these names."""
    return [compare(case) for name in names for case in read_measured(_DATA / name).cases]


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """A point for each pass, a shape for each file; the arguments are names of files."""
    with axes(name="accuracy", height=3.8) as ((axis,), finished):
        sizes: list[float] = []
        for place, name in enumerate(arguments):
            found = comparisons([name])
            measured = [row.measured_peak / GIB for row in found]
            sizes += measured
            axis.scatter(
                measured,
                [row.predicted_peak / GIB for row in found],
                marker=MARKERS[place % len(MARKERS)],
                s=16,
                facecolors="none",
                edgecolors=COLOURS[place % len(COLOURS)],
                label=Path(name).stem,
            )
        ends = [min(sizes), max(sizes)]
        axis.plot(ends, ends, color="#8c8c8c", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_yscale("log")
        ticks = [size for size in (1, 2, 5, 10, 20, 50, 100) if ends[0] * 0.8 <= size <= ends[1] * 1.2]
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.set_yticks(ticks, [str(tick) for tick in ticks])
        axis.minorticks_off()
        axis.set_xlabel(words["measured"])
        axis.set_ylabel(words["predicted"])
        axis.legend(fontsize=7, loc="lower right")
    rows = tuple(
        (
            row.case.model.rsplit("/", 1)[-1],
            row.case.pass_,
            f"{row.case.tokens:,}",
            f"{row.predicted_peak / GIB:.2f}",
            f"{row.measured_peak / GIB:.2f}",
            f"{row.error:+.1%}",
        )
        for row in comparisons(arguments)
    )
    header = tuple(words[name] for name in ("model", "pass", "tokens", "predicted", "measured", "error"))
    return Drawing(svg=finished[0], header=header, rows=rows)
