"""``tuner schema``: the JSON Schema of an output."""

import sys
from typing import Annotated, Literal

import typer

from tuner.cli import options

EXAMPLES = options.examples("tuner schema report > report.schema.json")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="schema", epilog=EXAMPLES)(schema)


def schema(
    output: Annotated[
        Literal["report", "check", "estimate"],
        typer.Argument(metavar="OUTPUT", help="The output of advise, check or estimate-memory."),
    ],
    verbose: options.Verbose = False,
) -> None:
    """Print the JSON Schema of an output."""
    import json

    from tuner.render.report import schema as schema_of
    from tuner.render.terminal import write

    write(sys.stdout, json.dumps(schema_of(output), indent=2))
