"""``.. measured-change:: name``: what following a rule changed on GPUs, from the recorded passes.

A data file says which setting a rule changes. Two passes that differ in that setting alone are a
measurement of it; of each model the pair with the largest change of the peak is shown.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from docutils.statemachine import StringList
from msgspec import Struct
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.parsing import nested_parse_to_nodes
from sphinx.util.typing import ExtensionMetadata

from tables import table
from tuner.units import GIB

_DOCS = Path(__file__).parents[1]
_SHOWN = 3  # pairs
_NAMED = ("torch", "transformers")  # versions beside verl's


class Pair(Struct, frozen=True, kw_only=True):
    """Two passes that differ in one setting."""

    model: str
    name: str  # of the pass
    tokens: int
    before_bytes: int
    after_bytes: int
    measured_on: str  # cards, versions, date

    @property
    def change(self) -> int:
        """Bytes of the peak, whichever way it went."""
        return abs(self.after_bytes - self.before_bytes)


@cache
def measured_changes() -> Mapping[str, dict[str, Any]]:
    """Of each rule that was tried: the setting, its two values, and which passes count."""
    loaded: dict[str, dict[str, Any]] = yaml.safe_load(
        (_DOCS / "data/measured-changes.yaml").read_text(encoding="utf-8")
    )
    return loaded


@cache
def _recordings() -> tuple[dict[str, Any], ...]:
    paths = sorted(_DOCS.glob("validation/data/verl-*-fsdp-*.json"))
    return tuple(json.loads(path.read_text(encoding="utf-8")) for path in paths)


def pairs(name: str) -> list[Pair]:
    """The pairs that a rule's page shows, the largest change first."""
    found = [pair for recording in _recordings() for pair in _pairs(recording, measured_changes()[name])]
    largest: dict[str, Pair] = {}
    for pair in sorted(found, key=lambda pair: (-pair.change, pair.model, pair.name, pair.tokens)):
        largest.setdefault(pair.model, pair)
    return list(largest.values())[:_SHOWN]


def _pairs(recording: dict[str, Any], wanted: dict[str, Any]) -> Iterator[Pair]:
    setting, narrowed = wanted["setting"], wanted.get("where", {})
    groups: dict[str, dict[Any, dict[str, Any]]] = defaultdict(dict)
    for case in recording["cases"]:
        if all(case.get(key) == value for key, value in narrowed.items()):
            alike = {key: value for key, value in case.items() if key != setting and not _is_measured(key)}
            groups[json.dumps(alike, sort_keys=True)][case.get(setting)] = case
    for cases in groups.values():
        if wanted["before"] in cases and wanted["after"] in cases:
            before, after = cases[wanted["before"]], cases[wanted["after"]]
            yield Pair(
                model=before["model"],
                name=before["pass"],
                tokens=before["tokens"],
                before_bytes=before["peak_allocated_bytes"],
                after_bytes=after["peak_allocated_bytes"],
                measured_on=_measured_on(recording),
            )


def _is_measured(key: str) -> bool:
    return key == "seconds" or key.endswith("_bytes")


def _measured_on(recording: dict[str, Any]) -> str:
    software = recording["software"]
    versions = ", ".join(f"{name} {software[name]}" for name in ("verl", *_NAMED))
    cards = recording["hardware"].split(" (")[0]
    return f"{cards}, {versions}, {recording['date']}"


class MeasuredChange(SphinxDirective):
    """The pairs of one rule."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One row per pair."""
        found = pairs(self.arguments[0])
        if not found:
            raise self.error(f"no two recorded passes differ in what {self.arguments[0]} changes alone")
        text = "Peaks of single passes with verl's own engine that differ in this setting alone:"
        rows = [
            [
                pair.model.rsplit("/", 1)[-1],
                f"``{pair.name}``",
                f"{pair.tokens:,}",
                f"{pair.before_bytes / GIB:.2f} GiB",
                f"{pair.after_bytes / GIB:.2f} GiB",
                pair.measured_on,
            ]
            for pair in found
        ]
        header = ["Model", "Pass", "Tokens", "Before", "After", "Measured on"]
        return [
            *nested_parse_to_nodes(self.state, StringList([text], source="<measured>")),
            *table(self, header, rows, widths=[18, 12, 10, 12, 12, 36]),
        ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("measured-change", MeasuredChange)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
