"""``tuner schema``: the JSON Schema of an output, of measured passes, or of the settings of a project."""

import sys
from typing import Annotated, Any, Literal

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
            "settings",
            "budget",
        ],
        typer.Argument(
            metavar="OUTPUT",
            help=_(
                "The output of advise, check, explain-oom (explanation), config, diff, estimate-memory, "
                "accuracy or validate; measured and runs: accuracy's inputs; settings and budget: files of a "
                "project."
            ),
        ),
    ],
    verbose: options.Verbose = False,
) -> None:
    """Print the JSON Schema of an output, of measured passes, or of a project's files."""
    import json

    from tuner.render.schemas import schema as schema_of
    from tuner.render.terminal import write

    content = schema_of(output)
    if output == "settings":
        _describe(content["$defs"])
    write(sys.stdout, json.dumps(content, indent=2))


def _describe(definitions: dict[str, Any]) -> None:
    """Say of each setting that is named like an option what the option takes."""
    from tuner.cli.premises import HELP

    for definition in definitions.values():
        for name, setting in definition.get("properties", {}).items():
            if name in HELP:
                setting["description"] = HELP[name]
