"""How far predicted seconds lie from measured ones, by phase and by what was known of card and run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles

from msgspec import Struct

from figures import Drawing
from figures.accuracy_scatter import DATA
from figures.plot import COLOURS, MARKERS, axes
from figures.timed_scatter import phases
from kept_answers import cached_answer
from tuner.accuracy import MeasurementOrigin, RunsFile, TimedPhase, read_records
from tuner.accuracy.seconds import CLOSE
from tuner.cli.timed_records import timed_record
from tuner.cli.timed_runs import timed_runs
from tuner.gpus import find_gpu

WORDS = {
    "axis": "predicted / measured",
    "phase": "phase",
    "known": "what was known",
    "count": "cases",
    "median": "median",
    "middle": "middle 80 %",
    "inside": "inside",
    "warm": "pass alone, card measured",
    "measured": "run, card measured",
    "other": "run, card not measured",
}
#: What was known, in the order of how much that is.
_BASES = ("warm", "measured", "other")
APART = Path(__file__).resolve().parents[3] / "tests/data/step-times-apart.txt"
_LEAST = 2  # ratios that have a middle


class Group(Struct, frozen=True, kw_only=True):
    """The predictions of one phase that rest on the same knowledge."""

    phase: str
    basis: str
    ratios: tuple[float, ...]
    inside: float  # share

    @property
    def middle(self) -> tuple[float, float]:
        """Between which ratios the middle 80 % lie."""
        if len(self.ratios) < _LEAST:
            return self.ratios[0], self.ratios[0]
        tenths = quantiles(self.ratios, n=10, method="inclusive")
        return tenths[0], tenths[-1]


def groups(*, every: bool = False) -> list[Group]:
    """Every phase of the recorded passes and runs, each by what was known of it.

    Args:
        every: with the runs of the sources that are kept apart to judge the time model by.
    """
    found: dict[tuple[str, str], list[TimedPhase]] = {}
    points = {"passes": phases("passes"), "runs": list(_of_runs(every))}
    for what in points:
        for point in points[what]:
            basis = _basis(what, point)
            if basis is not None:
                found.setdefault((point.phase, basis), []).append(point)
    names = list(dict.fromkeys(phase for phase, _basis_of in found))
    return [
        Group(
            phase=phase,
            basis=basis,
            ratios=tuple(sorted(point.ratio for point in found[phase, basis])),
            inside=sum(point.inside for point in found[phase, basis]) / len(found[phase, basis]),
        )
        for phase in names
        for basis in _BASES
        if (phase, basis) in found
    ]


def apart() -> tuple[str, ...]:
    """The sources that are kept apart: a run is of one where its own source begins with it."""
    lines = APART.read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if line.strip() and not line.startswith("//"))


@cached_answer(words=False)
def _of_runs(every: bool) -> tuple[TimedPhase, ...]:
    """The phases of public runs and of whole recorded ones; sources that are kept apart are not predicted."""
    without = () if every else apart()
    found: list[TimedPhase] = []
    for path in sorted(DATA.glob("*-runs.jsonl")):
        records = read_records(path)
        assert isinstance(records, RunsFile)  # by the name's end
        kept = tuple(run for run in records.runs if not run.source.startswith(without))
        found += timed_runs(path.name, RunsFile(runs=kept)).phases
    for path in sorted((DATA / "whole-runs").glob("*.jsonl")):
        phases = timed_record(str(path)).phases
        found += [one for one in phases if one.origin is not MeasurementOrigin.FIRST_STEP]
    return tuple(found)


def _basis(what: str, point: TimedPhase) -> str | None:
    measured = find_gpu(point.gpu).measured is not None
    if what == "passes":
        return "warm" if measured else None
    return "measured" if measured else "other"


def draw(words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
    """A row for each group: a line over the middle 80 %, a mark at the median; ``all``: of all sources."""
    rows = groups(every="all" in arguments)
    with axes(name="seconds-by-basis", height=1.6 + 0.24 * len(rows)) as ((axis,), finished):
        axis.axvspan(1 - CLOSE, 1 + CLOSE, color="#8c8c8c", alpha=0.2, linewidth=0)
        axis.axvline(1, color="#8c8c8c", linewidth=0.8)
        for place, row in enumerate(rows):
            colour = COLOURS[_BASES.index(row.basis)]
            axis.plot(row.middle, (place, place), color=colour, linewidth=1.6)
        for number, basis in enumerate(_BASES):
            shown = [(place, row) for place, row in enumerate(rows) if row.basis == basis]
            if not shown:
                continue
            axis.scatter(
                [median(row.ratios) for _place, row in shown],
                [place for place, _row in shown],
                marker=MARKERS[number],
                s=28,
                color=COLOURS[number],
                label=words[basis],
                zorder=3,
            )
        axis.set_xscale("log")
        ends = [end(edge for row in rows for edge in row.middle) for end in (min, max)]
        ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5) if ends[0] * 0.7 <= tick <= ends[1] * 1.4]
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
        axis.set_yticks(range(len(rows)), [row.phase for row in rows])
        axis.invert_yaxis()
        axis.set_xlabel(words["axis"])
        axis.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0))
    columns = ("phase", "known", "count", "median", "middle", "inside")
    return Drawing(
        svg=finished[0],
        header=tuple(words[name] for name in columns),
        rows=tuple(_numbers(row, words) for row in rows),
    )


def _numbers(row: Group, words: Mapping[str, str]) -> tuple[str, ...]:
    low, high = row.middle
    return (
        row.phase,
        words[row.basis],
        str(len(row.ratios)),
        f"{median(row.ratios):.2f}",
        f"{low:.2f}–{high:.2f}",
        f"{row.inside:.0%}",
    )
