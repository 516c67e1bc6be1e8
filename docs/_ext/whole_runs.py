"""``.. whole-run:: NAME``: a whole run of verl's trainer beside what was predicted before it began.

The predictions are those that were written down then, in ``NAME.predicted.json``; the run is its record, in
``NAME.jsonl``.
"""

import json
from pathlib import Path
from statistics import median
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from folded import folded
from tables import table
from tuner.inputs.record.peaks import phase_peaks
from tuner.inputs.record.read import RunRecord, read_record
from tuner.units import GIB
from tuner.workload import Phase

DATA = Path(__file__).resolve().parents[1] / "validation" / "data" / "whole-runs"
_TIMERS = {Phase.ROLLOUT: "gen", Phase.REF_LOG_PROB: "ref"}  # the others have the name of their phase
_STEP = "step"
_WAKE_UP = "wake_up"


class WholeRun(SphinxDirective):
    """Memory of each phase, seconds of each phase, and below them what was run."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Two tables, and the overrides."""
        record_file, prediction_file = (
            DATA / f"{self.arguments[0]}{end}" for end in (".jsonl", ".predicted.json")
        )
        for path in (record_file, prediction_file):
            self.env.note_dependency(str(path))
        record = read_record(record_file)
        predicted = json.loads(prediction_file.read_text(encoding="utf-8"))
        memory = ["GiB", "Allocated, predicted", "measured", "Reserved, predicted", "measured"]
        memory += ["On the card, predicted", "measured"]
        seconds = ["Seconds", "Predicted", "Step 1", "Later steps", "Ratio"]
        found = table(self, memory, memory_rows(record, predicted), widths=[22, *6 * [13]])
        found += table(self, seconds, seconds_rows(record, predicted), widths=[22, *4 * [18]])
        assert record.run is not None  # the record is one file
        overrides = "\n".join(record.run.overrides)
        body = nodes.literal_block(overrides, overrides, language="text")
        return [*found, folded(self, "What it was started with", [body])]


def memory_rows(record: RunRecord, predicted: dict[str, Any]) -> list[list[str]]:
    """One for each phase: the highest of all ranks and steps."""
    peaks = {peak.phase.value: peak for peak in phase_peaks(record)}
    woken = predicted["phases"][_WAKE_UP]["card_bytes"]
    rollouts = [max(card.used_bytes) for card in record.cards if card.phase is Phase.ROLLOUT]
    cards = {Phase.ROLLOUT.value: max(rollouts)} if rollouts else {}
    rows = []
    for name, phase in predicted["phases"].items():
        peak = peaks.get(name)
        if name == _WAKE_UP:  # who records sees it as the end of the phase before
            continue
        low, high = phase["reserved_bytes"]
        rows.append(
            [
                f"``{name}``",
                _gib(phase["allocated_bytes"]) if peak else "",
                _gib(peak.allocated_bytes) if peak else "",
                f"{_gib(low)}–{_gib(high)}" if peak else "",
                _gib(peak.reserved_bytes) if peak else "",
                _gib(woken if name == Phase.UPDATE_WEIGHTS.value else phase["card_bytes"]),
                _gib(peak.card_bytes if peak else cards.get(name)),
            ]
        )
    return rows


def highest(side: str, name: str, _overrides: tuple[str, ...]) -> str:
    """The most that a run's card held in a phase: as it was ``predicted``, or ``measured``."""
    record = read_record(DATA / f"{name}.jsonl")
    predicted = json.loads((DATA / f"{name}.predicted.json").read_text(encoding="utf-8"))
    column = {"predicted": -2, "measured": -1}[side]
    return f"{max(float(row[column]) for row in memory_rows(record, predicted) if row[column]):.2f} GiB"


QUANTITIES = {"whole-run": highest}


def seconds_rows(record: RunRecord, predicted: dict[str, Any]) -> list[list[str]]:
    """One for each phase and one for the step; the median of the steps behind the first is compared."""
    rows = []
    steps = [step.values for step in record.steps if step.step > 0]
    whole = {"seconds": predicted["step_seconds"]["seconds"]}
    whole["interval_s"] = [predicted["step_seconds"][name] for name in ("low_s", "high_s")]
    for name, phase in {**predicted["phases"], _STEP: whole}.items():
        if "seconds" not in phase:
            continue
        timer = "timing_s/" + (_TIMERS.get(Phase(name), name) if name != _STEP else name)
        first, *later = (step[timer] for step in steps)
        low, high = phase["interval_s"]
        rows.append(
            [
                f"``{name}``",
                f"{phase['seconds']:.2f} ({low:.2f}–{high:.2f})",
                f"{first:.2f}",
                ", ".join(f"{one:.2f}" for one in later),
                f"{phase['seconds'] / median(later):.2f}" if later else "",
            ]
        )
    return rows


def _gib(size: int | None) -> str:
    return "" if size is None else f"{size / GIB:.2f}"


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("whole-run", WholeRun)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
