"""``.. validation-reports::`` and ``.. validation-output::``: recorded runs of ``tuner validate``.

The first makes tables of every ``validation/data/validate-*.json``; the second shows the one it names as the
command prints it, ``:head:`` lines of it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.parsing import nested_parse_to_nodes
from sphinx.util.typing import ExtensionMetadata, OptionSpec

from rule_pages import catalogue
from run_command import COLUMNS
from tables import table
from tuner.render.document.terminal import terminal_text
from tuner.render.numbers import gib, quantity, share
from tuner.render.terminal import Terminal
from tuner.render.validation import prediction, validation_document
from tuner.validate.parts import ValidationPart
from tuner.validate.report.schema import (
    JudgedRecommendation,
    Measurement,
    Outcome,
    PartReport,
    Validation,
    ValidationFile,
)

FIGURES = ("Figure", "Tokens", "Predicted", "Measured", "Error", "Outcome")
ADVICE = ("Recommendation", "Claim", "Outcome", "Reason")

_FOLDER = "validation/data"
_SIZE = re.compile(r",? (?:with )?((?:\d+ x )?\d[\d,]*) tokens")
_MARKUP = re.compile(r"[*`|\\]|_(?!\w)")

Rows = list[list[str]]


def read_validations(folder: Path) -> dict[Path, ValidationFile]:
    """All recorded runs, in the order of their files' names.

    Raises:
        pydantic.ValidationError: a file is not what ``tuner validate`` writes.
    """
    return {
        path: ValidationFile.model_validate_json(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("validate-*.json"))
    }


def machine_rows(validation: Validation) -> Rows:
    """What was measured, on what and when."""
    machine = validation.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    rows = [
        ["Configuration", " ".join(f"``{text}``" for text in (validation.source, *validation.overrides))],
        ["Trainer", _plain(validation.trainer)],
        ["GPU", _plain(f"{machine.devices} × {machine.device}")],
        ["Nodes of this kind", str(machine.nodes) if machine.nodes > 1 else ""],
        ["Free when the run began", f"{gib(machine.free_bytes)} / {gib(machine.total_bytes)}"],
        [
            "Memory limit",
            gib(validation.memory_limit_bytes) if validation.memory_limit_bytes is not None else "",
        ],
        ["Profile of the prediction", f"``{machine.profile}``" if machine.profile else ""],
        ["Versions", _plain(versions)],
        ["Written by", f"tuner {_plain(validation.tuner_version)}, {validation.date}"],
        ["Time and budget", f"{validation.spent_seconds:.0f} s / {validation.budget_seconds:.0f} s"],
    ]
    return [row for row in rows if row[1]]


def outcome_rows(validation: Validation) -> Rows:
    """How many claims hold."""
    figures = [item.outcome for part in validation.parts for item in part.measurements]
    advice = [item.outcome for item in validation.recommendations]
    return [
        [name, *(str(outcomes.count(kind)) for kind in Outcome)]
        for name, outcomes in (("predicted figures", figures), ("recommendations", advice))
    ]


def part_rows(parts: Iterable[PartReport]) -> Rows:
    """How far each part came."""
    return [
        [f"``{part.part.value}``", part.status.value, f"{part.seconds:.0f} s", _plain(part.reason)]
        for part in parts
    ]


def advice_rows(items: Iterable[JudgedRecommendation]) -> Rows:
    """One for each recommendation."""
    return [[_rule(item), _plain(item.claim), _outcome(item.outcome), _plain(item.reason)] for item in items]


def _rule(item: JudgedRecommendation) -> str:
    """A link to the rule's page, unless a later release has no such rule."""
    title = f"{item.code} {item.name}"
    return f":doc:`{title} </rules/{item.name}>`" if item.name in catalogue() else title


def figure_rows(items: Iterable[Measurement]) -> Rows:
    """One for each figure."""
    return [
        [
            name,
            size,
            _predicted(item),
            quantity(item.measured, item.unit),
            "" if item.error is None else share(item.error),
            _outcome(item.outcome),
        ]
        for item in items
        for name, size in [_named(item.what)]
    ]


def _named(what: str) -> tuple[str, str]:
    """A figure's name without the tokens, which differ from run to run, and the tokens."""
    size = _SIZE.search(what)
    if size is None:
        return _plain(what), ""
    return _plain(what[: size.start()] + what[size.end() :]), size[1].replace(" x ", " × ")


def _predicted(item: Measurement) -> str:
    """The figure, and the interval where that decides."""
    if item.low is None or item.high is None or item.low == item.high:
        return prediction(item)
    ends = f"{quantity(item.low, item.unit)} – {quantity(item.high, item.unit)}"
    return ends if item.predicted is None else f"{prediction(item)} ({ends})"


def _outcome(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    return f"**{outcome.value}**" if outcome is Outcome.REFUTED else outcome.value


def _plain(text: str) -> str:
    """Text that a table's cell shows as it is."""
    return _MARKUP.sub(r"\\\g<0>", text)


class _Recorded(SphinxDirective):
    """Shared by the directives: the runs, and what a page says where there are none."""

    def runs(self) -> dict[Path, ValidationFile]:
        files = read_validations(Path(self.env.srcdir, _FOLDER))
        for path in files:
            self.env.note_dependency(str(path))
        return files

    @staticmethod
    def none() -> list[nodes.Node]:
        return [nodes.paragraph("", "No report has been recorded yet.")]


class ValidationReports(_Recorded):
    """Every run: machine, outcomes, recommendations, parts, figures, accuracy of its passes."""

    def run(self) -> list[nodes.Node]:
        """One block of tables for each."""
        tables = [node for path, file in self.runs().items() for node in self._run(path, file)]
        return tables or self.none()

    def _run(self, path: Path, file: ValidationFile) -> Iterator[nodes.Node]:
        validation = file.validation
        yield _heading(f"{validation.model}, {validation.machine.devices} × {validation.machine.device}")
        yield from table(self, ("Run", ""), machine_rows(validation), prose=["Run"], widths=[25, 75])
        yield from self._parse(f":download:`{path.name} </{_FOLDER}/{path.name}>`")
        counted = ("Claims", *(kind.value for kind in Outcome))
        yield from table(self, counted, outcome_rows(validation), prose=["Claims"])
        if validation.recommendations:
            rows = advice_rows(validation.recommendations)
            yield from table(self, ADVICE, rows, prose=ADVICE[1:], widths=[20, 25, 15, 40])
        rows = part_rows(validation.parts)
        yield from table(self, ("Part", "Status", "Time", "Why"), rows, prose=["Status", "Why"])
        for part in validation.parts:
            if part.measurements:
                yield from self._figures(part)
        if file.notes:
            yield from table(self, ("Notes",), [[_plain(note)] for note in file.notes], prose=["Notes"])

    def _figures(self, part: PartReport) -> Iterator[nodes.Node]:
        groups = (
            _by_head(part.measurements)
            if part.part is ValidationPart.OUTPUT_HEAD
            else {"": part.measurements}
        )
        for head, items in groups.items():
            yield _heading(f"{part.part.value}: {head}" if head else part.part.value)
            yield from self._table(items)

    def _table(self, items: Sequence[Measurement]) -> Iterator[nodes.Node]:
        header, rows = list(FIGURES), figure_rows(items)
        if any(item.extrapolated for item in items):
            header.append("Extrapolated")
            for row, item in zip(rows, items, strict=True):
                row.append(_plain(item.extrapolated or ""))
        if not any(row[1] for row in rows):
            header, rows = [header[0], *header[2:]], [[row[0], *row[2:]] for row in rows]
        prose = [title for title in header if title in ("Figure", "Outcome", "Extrapolated")]
        widths = [40, *(60 // (len(header) - 1) for _ in header[1:])]
        yield from table(self, header, rows, prose=prose, widths=widths)

    def _parse(self, text: str) -> list[nodes.Node]:
        parsed = nested_parse_to_nodes(self.state, StringList([text], source="<validation>"))
        for node in parsed:
            node["translatable"] = False
        return parsed


def _by_head(items: Iterable[Measurement]) -> dict[str, list[Measurement]]:
    """Figures of the output head by its implementation, whose name stands before the colon."""
    figures: dict[str, list[Measurement]] = {}
    for item in items:
        head, colon, what = item.what.partition(": ")
        named = item.model_copy(update={"what": what}) if colon else item
        figures.setdefault(head if colon else "", []).append(named)
    return figures


def _heading(text: str) -> nodes.rubric:
    """Names that are the same in every language."""
    return nodes.rubric("", "", nodes.literal(text, text), translatable=False)


class ValidationOutput(_Recorded):
    """One run as ``tuner validate`` prints it."""

    required_arguments = 1
    option_spec: ClassVar[OptionSpec] = {"head": directives.positive_int}

    def run(self) -> list[nodes.Node]:
        """A block that is not translated."""
        (name,) = self.arguments
        runs = {path.stem: file for path, file in self.runs().items()}
        if name not in runs:
            raise self.error(f"no run {name} is recorded in {_FOLDER}")
        lines = terminal_text(validation_document(runs[name]), Terminal(width=COLUMNS)).rstrip().splitlines()
        head = self.options.get("head", len(lines))
        text = "\n".join(lines[:head] + (["..."] if head < len(lines) else []))
        return [nodes.literal_block(text, text, language="text")]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives."""
    app.add_directive("validation-output", ValidationOutput)
    app.add_directive("validation-reports", ValidationReports)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
