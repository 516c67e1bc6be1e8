"""``.. seconds-accuracy::`` and its like: how far predicted seconds are from measured ones.

They are computed while the pages are built, from files of ``validation/data``, as ``tuner accuracy`` does it.
"""

import json
from collections.abc import Callable, Sequence
from statistics import median

from docutils import nodes
from msgspec.structs import replace
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from figures.timed_scatter import RECORDINGS, phases, phases_of, recordings, utilisations
from folded import folded
from tables import table
from tuner.accuracy import Ratios, TimedPhase, ratios, series

_FOLDER = "/validation/data"
_RUNS = ("runs", "judged")  # whose files name their sources themselves
_OF_RUNS = {"step": "Step", "rollout": "Generation"}  # what each run's own row tells


class SecondsAccuracy(SphinxDirective):
    """A row for each phase on each card; below it the order of settings, and what the figures come from."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The tables of passes, runs or single calls."""
        what = self.arguments[0]
        if what not in RECORDINGS:
            raise self.error(f"{what!r} is none of {', '.join(RECORDINGS)}")
        for path in recordings(what):
            self.env.note_dependency(str(path))
        timed = phases(what)
        header = [
            "Phase",
            "GPU",
            "Cases",
            "Median",
            "Middle 80 %",
            "Median error",
            "Within 15 %",
            "Inside",
            "Width",
        ]
        found = table(self, header, [_row(row) for row in ratios(timed)])
        ordered = series(timed)
        if ordered and what != "calls":
            columns = ["Phase", "GPU", "Model", "Settings", "Rank correlation"]
            rows = [
                [f"``{one.phase}``", one.gpu, one.model, str(one.count), f"{one.rank_correlation:.2f}"]
                for one in ordered
            ]
            title = "How well the predictions order the settings of one model on one card"
            found.append(folded(self, title, table(self, columns, rows)))
        found += self._sources(what)
        return found

    def _sources(self, what: str) -> list[nodes.Node]:
        if what in _RUNS:
            return []
        columns = ["Recording", "GPUs", "Versions", "Date"]
        return [folded(self, "What was recorded with", table(self, columns, _recording_rows(what)))]


class RunsAccuracy(SphinxDirective):
    """A row for each phase, whatever the card; below it one for each run, of its step and its generation."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Both tables of steps of runs."""
        what = self.arguments[0]
        if what not in _RUNS:
            raise self.error(f"{what!r} is none of {', '.join(_RUNS)}")
        for path in recordings(what):
            self.env.note_dependency(str(path))
        timed = phases(what)
        header = ["Phase", "Cases", "Median", "Middle 80 %", "Median error", "Within 15 %", "Inside", "Width"]
        rows = [[phase, *figures] for phase, _gpu, *figures in map(_row, ratios(_of_any_card(timed)))]
        columns = ["Run", "Model", "GPUs", *_OF_RUNS.values()]
        return [*table(self, header, rows), *table(self, columns, _run_rows(timed))]


class PrintedUtilisation(SphinxDirective):
    """The model FLOP utilisation that a trainer printed, and the one that follows from predicted seconds."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One row per run."""
        rows = [
            [one.case, f"{one.predicted:.2f}", f"{one.printed:.2f}"]
            for one in utilisations(self.arguments[0])
        ]
        return [folded(self, "Every run", table(self, ["Run", "Predicted", "Printed"], rows))]


def _row(row: Ratios) -> Sequence[str]:
    return [
        f"``{row.phase}``",
        row.gpu,
        str(row.count),
        f"{row.median:.2f}",
        f"{row.p10:.2f}–{row.p90:.2f}",
        f"{row.median_error:.0%}",
        f"{row.close:.0%}",
        f"{row.inside:.0%}",
        f"{row.width:.1f}",
    ]


def _of_any_card(timed: Sequence[TimedPhase]) -> list[TimedPhase]:
    """The same seconds, to be summed up over all cards."""
    return [replace(one, gpu="") for one in timed]


def _run_rows(timed: Sequence[TimedPhase]) -> list[list[str]]:
    """Of each run predicted over measured seconds, with the ends of the interval; 1 is inside or not."""
    rows = []
    for case in dict.fromkeys(one.case for one in timed):
        of_case = {one.phase: one for one in timed if one.case == case}
        first = next(iter(of_case.values()))
        ratios_of_case = [_ratio(of_case.get(phase)) for phase in _OF_RUNS]
        rows.append([case, first.model, f"{first.gpus} × {first.gpu}", *ratios_of_case])
    return rows


def _ratio(one: TimedPhase | None) -> str:
    if one is None:
        return ""
    low, high = (end / one.measured_s for end in (one.low_s, one.high_s))
    return f"{one.ratio:.2f} ({low:.2f}–{high:.2f})"


def _recording_rows(what: str) -> list[list[str]]:
    """Card, versions and date of each file."""
    rows = []
    for path in recordings(what):
        content = json.loads(path.read_text(encoding="utf-8"))
        software = content.get("software", {})
        named = [f"{name} {software[name]}" for name in ("torch", "transformers", "verl") if name in software]
        link = f":download:`{path.stem} <{_FOLDER}/{path.name}>`"
        rows.append([link, content["hardware"].partition(" (")[0], ", ".join(named), content["date"]])
    return rows


def _errors(file: str) -> list[float]:
    return [abs(phase.ratio - 1) for phase in phases_of(file)]


def _error(file: str, _overrides: tuple[str, ...]) -> str:
    return f"{100 * median(_errors(file)):.1f}\N{NO-BREAK SPACE}%"


def _close(file: str, percent: str, _overrides: tuple[str, ...]) -> str:
    errors = _errors(file)
    return (
        f"{100 * sum(100 * error <= float(percent) for error in errors) / len(errors):.0f}\N{NO-BREAK SPACE}%"
    )


#: What can be asked of the seconds of a recorded file.
QUANTITIES: dict[str, Callable[..., str]] = {
    "seconds-error": _error,  # a file: the median, without its sign
    "seconds-close": _close,  # a file, percent: the share that is no further off
}


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives."""
    app.add_directive("seconds-accuracy", SecondsAccuracy)
    app.add_directive("runs-accuracy", RunsAccuracy)
    app.add_directive("printed-utilisation", PrintedUtilisation)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
