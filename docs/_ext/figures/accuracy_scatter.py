"""Predicted peaks against measured ones, of the passes that stand in ``validation/data``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from figures import Drawing
from figures.plot import COLOURS, MARKERS, axes
from kept_answers import cached_answer
from tuner.accuracy import PassComparison, compare, read_measured, special_settings
from tuner.units import GIB

WORDS = {
    "measured": "measured peak, GiB",
    "predicted": "predicted peak, GiB",
    "percent": "error, %",
    "recording": "recording",
    "model": "model",
    "pass": "measurement of",
    "tokens": "tokens",
    "settings": "settings",
    "error": "error",
}
DATA = Path(__file__).resolve().parents[2] / "validation/data"
#: In the place of names of files: every recording of verl's engine, in the order in which they were made.
ALL = "all"
RECORDINGS = tuple(
    f"verl-0.9.1-fsdp-{name}.json"
    for name in ("2xh200", "2xh200-more", "4xh200-holdout", "4xh200-second-holdout", "1xh200")
)
_TICKS = (1, 2, 5, 10, 20, 50, 100)


def files(names: Sequence[str]) -> Sequence[str]:
    """The names of files that are meant by these, which may be ``all``."""
    return RECORDINGS if tuple(names) == (ALL,) else names


def comparisons(names: Sequence[str]) -> list[PassComparison]:
    """The passes of the files of these names."""
    return [row for name in files(names) for row in _compared(name)]


@cached_answer(words=False)
def _compared(name: str) -> tuple[PassComparison, ...]:
    return tuple(compare(case) for case in read_measured(DATA / name).cases)


def recording(name: str) -> str:
    """What a file of measured peaks is called on a page: its GPUs, and which one it is."""
    return Path(name).stem.removeprefix("verl-0.9.1-fsdp-")


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """A point for each pass, a shape for each file, and its error below; arguments are names of files."""
    with axes(name="accuracy", height=5.4, rows=2, ratios=(3, 2)) as ((above, below), finished):
        for place, name in enumerate(files(arguments)):
            rows = comparisons([name])
            measured = [row.measured_peak / GIB for row in rows]
            look: dict[str, Any] = {
                "marker": MARKERS[place % len(MARKERS)],
                "s": 16,
                "facecolors": "none",
                "edgecolors": COLOURS[place % len(COLOURS)],
            }
            above.scatter(measured, [row.predicted_peak / GIB for row in rows], label=recording(name), **look)
            below.scatter(measured, [100 * row.error for row in rows], **look)
        sizes = [row.measured_peak / GIB for row in comparisons(arguments)]
        ends = [min(sizes), max(sizes)]
        above.plot(ends, ends, color="#8c8c8c", linewidth=0.8)
        above.set_xscale("log")
        above.set_yscale("log")
        ticks = [size for size in _TICKS if ends[0] * 0.8 <= size <= ends[1] * 1.2]
        above.set_yticks(ticks, [str(tick) for tick in ticks])
        below.set_xticks(ticks, [str(tick) for tick in ticks])
        above.minorticks_off()
        above.set_ylabel(words["predicted"])
        above.legend(loc="lower right")
        below.axhline(0, color="#8c8c8c", linewidth=0.8)
        below.set_ylabel(words["percent"])
        below.set_xlabel(words["measured"])
    columns = ("recording", "model", "pass", "tokens", "settings", "predicted", "measured", "error")
    return Drawing(
        svg=finished[0], header=tuple(words[name] for name in columns), rows=tuple(_rows(arguments))
    )


def _rows(names: Sequence[str]) -> list[tuple[str, ...]]:
    return [
        (
            recording(name),
            row.case.model.rsplit("/", 1)[-1],
            row.case.pass_,
            f"{row.case.tokens:,}",
            " ".join(special_settings(row.case)) or "–",
            f"{row.predicted_peak / GIB:.2f}",
            f"{row.measured_peak / GIB:.2f}",
            f"{row.error:+.1%}",
        )
        for name in files(names)
        for row in comparisons([name])
    ]
