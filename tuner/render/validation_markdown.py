"""A validation as Markdown, for a pull request or a wiki."""

from collections.abc import Iterator

from tuner.language import _, pgettext
from tuner.render.numbers import quantity, share
from tuner.render.progress import ended
from tuner.render.terminal import plain
from tuner.render.validation import counts, headline, machine_lines, prediction, remarks
from tuner.render.words import sentence
from tuner.validate.report.schema import (
    JudgedRecommendation,
    Measurement,
    Outcome,
    PartReport,
    ValidationFile,
)


def validation_markdown(file: ValidationFile) -> str:
    """The whole report."""
    validation = file.validation
    sections = [
        f"## {_cell(validation.model)}: {headline(validation)[0].lower()}",
        "\n".join(
            [*map(sentence, counts(validation)), "", f"`{validation.source}`, {_cell(validation.trainer)}."]
        ),
        *_recommendations(validation.recommendations),
        *(section for part in validation.parts for section in _part(part)),
        "\n".join(f"- {_cell(note)}" for note in file.notes),
        "\n".join(f"- {_cell(line)}" for line in machine_lines(validation)),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _recommendations(items: tuple[JudgedRecommendation, ...]) -> Iterator[str]:
    if items:
        rows = [
            f"| {_cell(item.code)} {_cell(item.name)} | {_cell(item.claim)} | {_mark(item.outcome)} "
            f"| {_cell(sentence(item.reason))} |"
            for item in items
        ]
        yield "### " + _("Recommendations")
        yield "\n".join(
            [_row_of(_("recommendation"), _("claim"), _("outcome"), _("reason")), "|---|---|---|---|", *rows]
        )


def _part(part: PartReport) -> Iterator[str]:
    yield f"### {_cell(ended(part))}"
    if part.measurements:
        head = [_head(), "|---|---:|---:|---:|---|---|"]
        yield "\n".join([*head, *map(_row, part.measurements)])


def _row(item: Measurement) -> str:
    error = "" if item.error is None else share(item.error)
    cells = (
        _cell(item.what),
        prediction(item),
        quantity(item.measured, item.unit),
        error,
        "" if item.outcome is None else _mark(item.outcome),
        _cell("; ".join(remarks(item))),
    )
    return f"| {' | '.join(cells)} |"


def _row_of(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _head() -> str:
    return (
        "| "
        + "".join(
            f"| {text} "
            for text in (_("predicted"), _("measured"), pgettext("of a prediction", "error"), _("outcome"))
        )
        + "| |"
    )


def _mark(outcome: Outcome) -> str:
    return f"**{_(outcome.value)}**" if outcome is Outcome.REFUTED else _(outcome.value)


def _cell(text: str) -> str:
    return plain(text).replace("|", "\\|")
