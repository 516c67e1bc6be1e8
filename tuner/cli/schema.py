"""``tuner schema``: the JSON Schema of an output, or of measured passes."""

import sys
from typing import Annotated, Literal

import typer

from tuner.cli import options
from tuner.language import _

EXAMPLES = options.examples("tuner schema report > report.schema.json", "tuner schema measured")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="schema", help=options.summary(schema), epilog=EXAMPLES)(schema)


def schema(
    output: Annotated[
        Literal[
            "report",
            "check",
            "explanation",
            "config",
            "diff",
            "estimate",
            "accuracy",
            "validation",
            "measured",
            "runs",
        ],
        typer.Argument(
            metavar="OUTPUT",
            help=_(
                "The output of advise, check, explain-oom (explanation), config, diff, estimate-memory, "
                "accuracy or validate; measured and runs: accuracy's inputs."
            ),
        ),
    ],
    verbose: options.Verbose = False,
) -> None:
    """Print the JSON Schema of an output, or of measured passes."""
    import json

    from tuner.render.schemas import schema as schema_of
    from tuner.render.terminal import write

    write(sys.stdout, json.dumps(schema_of(output), indent=2))
