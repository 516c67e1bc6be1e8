"""``tuner accuracy``: the memory model held against measured peaks."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli import options
from tuner.language import _

if TYPE_CHECKING:
    from tuner.accuracy import ComparedFile, Comparison, MeasuredCase

EXAMPLES = options.examples(
    "tuner accuracy measured.json",
    "tuner accuracy measured.json --output-format json",
    "tuner schema measured > measured.schema.json",
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="accuracy", help=options.summary(accuracy), epilog=EXAMPLES)(accuracy)


def accuracy(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help=_("Measured passes in JSON, as tuner schema measured says.")),
    ],
    output_format: options.TextOrJson = "text",
    color: options.Colour = "auto",
    verbose: options.Verbose = False,
) -> None:
    """Hold the memory model against measured peaks.

    Predicts every measured pass and prints prediction, measurement and error, and the errors of all passes.
    """
    from tuner.render.terminal import Terminal, write

    compared = [_compared(file) for file in files]
    if output_format == "json":
        from tuner.render.accuracy_report import accuracy_json

        write(sys.stdout, accuracy_json(compared))
    else:
        from tuner.render.accuracy import accuracy_text

        write(sys.stdout, accuracy_text(compared, Terminal.of(sys.stdout, color)))


def _compared(file: str) -> "ComparedFile":
    from pathlib import Path

    from tuner.accuracy import ComparedFile, read_measured

    measured = read_measured(Path(file))
    comparisons = tuple(_predicted(file, index, case) for index, case in enumerate(measured.cases))
    return ComparedFile(source=file, measured=measured, comparisons=comparisons)


def _predicted(file: str, index: int, case: "MeasuredCase") -> "Comparison":
    """One case beside its prediction; an error says which case it is."""
    from tuner.accuracy import compare
    from tuner.errors import InputError, Location, TunerError

    try:
        return compare(case)
    except TunerError as error:
        raise InputError(
            f"{error.location}: {error.message}" if error.location is not None else error.message,
            location=Location(source=file),
            key=f"cases[{index}].model",
            hint=_("name a bundled model, a folder with config.json or a config.json"),
        ) from None
