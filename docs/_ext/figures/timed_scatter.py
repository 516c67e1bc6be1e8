"""Predicted seconds against measured ones: warm passes, or steps of training runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from figures import Drawing
from figures.accuracy_scatter import DATA
from figures.plot import COLOURS, MARKERS, axes
from kept_answers import cached_answer
from tuner.accuracy import MeasuredFile, TimedPhase, Utilisation, read_records, timed_passes
from tuner.accuracy.seconds import CLOSE, TimedFile
from tuner.cli.timed_runs import timed_runs

WORDS = {
    "measured": "measured, s",
    "predicted": "predicted, s",
    "ratio": "predicted / measured",
    "case": "run or pass",
    "model": "model",
    "card": "GPUs",
    "phase": "phase",
    "interval": "interval",
}
#: What is drawn: the argument, and the files of ``validation/data`` that tell it.
RECORDINGS = {
    "passes": ("warm-passes-*.json", "validate-*.json"),
    "runs": ("*-runs.jsonl",),
    "judged": ("judged-public-steps.jsonl",),
    "calls": ("verl-*.json",),
}


def recordings(what: str) -> list[Path]:
    """The files that tell of it."""
    files = (path for pattern in RECORDINGS[what] for path in sorted(DATA.glob(pattern)))
    return [path for path in files if _timed(path.name).phases]


def phases_of(name: str) -> tuple[TimedPhase, ...]:
    """Every phase of one of these files that was timed."""
    return tuple(_timed(name).phases)


def phases(what: str) -> list[TimedPhase]:
    """Every phase of these files that was timed."""
    return [phase for path in recordings(what) for phase in _timed(path.name).phases]


def utilisations(what: str) -> list[Utilisation]:
    """Model FLOP utilisation of the updates among them."""
    return [one for path in recordings(what) for one in _timed(path.name).utilisations]


@cached_answer(words=False)
def _timed(name: str) -> TimedFile:
    records = read_records(DATA / name)
    return timed_passes(name, records) if isinstance(records, MeasuredFile) else timed_runs(name, records)


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """A point for each phase, a shape for each kind of phase; the argument says of what, see above."""
    what = arguments[0] if arguments else "passes"
    points = phases(what)
    with axes(name=f"timed-{what}", height=5.4, rows=2, ratios=(3, 2)) as ((above, below), finished):
        for place, name in enumerate(dict.fromkeys(point.phase for point in points)):
            shown = [point for point in points if point.phase == name]
            measured = [point.measured_s for point in shown]
            look: dict[str, Any] = {"marker": MARKERS[place % len(MARKERS)], "s": 18, "facecolors": "none"}
            colour = COLOURS[place % len(COLOURS)]
            above.scatter(
                measured, [point.predicted_s for point in shown], label=name, edgecolors=colour, **look
            )
            below.scatter(measured, [point.ratio for point in shown], edgecolors=colour, **look)
        ends = [end(point.measured_s for point in points) for end in (min, max)]
        above.plot(ends, ends, color="#8c8c8c", linewidth=0.8)
        for axis in (above, below):
            axis.set_xscale("log")
            axis.set_yscale("log")
        powers = [10.0**power for power in range(-3, 5) if ends[0] / 10 < 10.0**power < ends[1] * 10]
        labels = [f"{power:g}" for power in powers]
        above.set_xticks(powers, labels)
        above.set_yticks(powers, labels)
        above.set_xlim(ends[0] * 0.8, ends[1] * 1.25)
        below.axhline(1, color="#8c8c8c", linewidth=0.8)
        below.axhspan(1 - CLOSE, 1 + CLOSE, color="#8c8c8c", alpha=0.2, linewidth=0)
        ticks = [tick for tick in (0.2, 0.5, 1, 2) if tick >= 0.8 * min(point.ratio for point in points)]
        below.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        below.minorticks_off()
        above.set_ylabel(words["predicted"])
        below.set_ylabel(words["ratio"])
        below.set_xlabel(words["measured"])
        above.legend(loc="lower right")
    columns = ("case", "model", "card", "phase", "predicted", "interval", "measured", "ratio")
    return Drawing(
        svg=finished[0], header=tuple(words[name] for name in columns), rows=tuple(map(_row, points))
    )


def _row(point: TimedPhase) -> tuple[str, ...]:
    return (
        point.case,
        point.model,
        f"{point.gpus} × {point.gpu}",
        point.phase,
        f"{point.predicted_s:.3g}",
        f"{point.low_s:.3g}–{point.high_s:.3g}",
        f"{point.measured_s:.3g}",
        f"{point.ratio:.2f}",
    )
