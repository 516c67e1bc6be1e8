"""What an agent is told at once, and which parts of a report it has to ask for by name.

A whole report has each addend of each moment of each phase, some 60,000 tokens of a model's context.
"""

from collections.abc import Mapping
from typing import Any

_MOST_ADDENDS = 4

#: Of the reports of two tools, by tool: what is told only where it is asked for.
PARTS: dict[str, tuple[str, ...]] = {
    "advise": ("settings", "workload", "batches", "memory", "rollout", "time", "carries", "symbols"),
    "plan": ("capacity", "variants", "longest"),
}


def brief(tool: str, report: dict[str, Any], wanted: frozenset[str]) -> dict[str, Any]:
    """A report without the parts that nobody asked for, whose names it has.

    Args:
        tool: whose report it is.
        report: as its JSON Schema describes it.
        wanted: the names of parts that are told as well.
    """
    parts = PARTS.get(tool, ())
    told = {name: value for name, value in report.items() if name not in parts or name in wanted}
    if "memory" in report:
        told["phases"] = _peaks(report["memory"])
    if tool == "advise":
        told |= _shortened(told, wanted)
    left_out = [name for name in parts if name not in wanted]
    return {**told, "parts_left_out": left_out} if left_out else told


def _shortened(told: dict[str, Any], wanted: frozenset[str]) -> dict[str, Any]:
    """The parts of advice that hold more than an agent reads, in short unless they were asked for."""
    premises, block = told["premises"], told["combination"]
    if "settings" not in wanted:
        premises = {name: value for name, value in premises.items() if name != "settings"}
    if block is not None and "memory" not in wanted:
        block = {**block, "memory": _peaks(block["memory"])}
    return {"premises": premises, "combination": block}


def _peaks(memory: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [_phase(phase) for phase in memory["phases"]]


def _phase(phase: Mapping[str, Any]) -> dict[str, Any]:
    """The peak of a phase with its largest addends."""
    peak = next(moment for moment in phase["moments"] if moment["name"] == phase["peak_moment"])
    largest = sorted(peak["terms"], key=lambda term: -int(term["bytes"]))[:_MOST_ADDENDS]
    names = ("phase", "peak_bytes", "interval_bytes", "shown_interval_bytes", "peak_moment")
    addends = ("name", "bytes", "interval_bytes", "evidence", "formula")
    return {
        **{name: phase[name] for name in names},
        "largest": [{name: term[name] for name in addends} for term in largest],
    }
