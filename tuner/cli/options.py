"""Options that several commands share. Their help texts are what the documentation shows."""

from typing import Annotated, Literal

import typer

SeverityName = Literal["error", "warning", "advice"]

VerlVersion = Annotated[
    str | None,
    typer.Option(
        "--verl-version",
        metavar="VERSION",
        help="Release of verl to go by; the installed one, else the newest bundled one.",
        show_default=False,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|DIR|FILE",
        help="Bundled model name, model folder or config.json, in place of the configuration's model path.",
        show_default=False,
    ),
]
CriticModel = Annotated[
    str | None,
    typer.Option(
        "--critic-model",
        metavar="NAME|DIR|FILE",
        help="The same for the critic.",
        show_default=False,
    ),
]
Gpu = Annotated[
    str | None,
    typer.Option(
        "--gpu",
        metavar="NAME",
        help="GPU to judge for, such as h100-sxm; this machine's GPU, else an assumed card of 80 GB.",
        show_default=False,
    ),
]
GpusPerNode = Annotated[
    int | None,
    typer.Option(
        "--gpus-per-node",
        min=1,
        metavar="COUNT",
        help="GPUs of one node, in place of the configuration's.",
        show_default=False,
    ),
]
Nodes = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        min=1,
        metavar="COUNT",
        help="Number of nodes, in place of the configuration's.",
        show_default=False,
    ),
]
HostMemory = Annotated[
    float | None,
    typer.Option(
        "--host-memory",
        min=1,
        metavar="GIB",
        help="Host memory of one node in GiB, for advice that offloads to it.",
        show_default=False,
    ),
]
Headroom = Annotated[
    float,
    typer.Option(
        "--headroom",
        min=0.0,
        max=0.9,
        metavar="SHARE",
        help="Share of the GPU's memory that advice leaves free.",
    ),
]
Colour = Annotated[
    Literal["auto", "always", "never"],
    typer.Option("--color", help="Colours; auto follows the terminal, NO_COLOR and FORCE_COLOR."),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", help="Show the traceback of an internal error."),
]


def examples(*commands: str) -> str:
    """The last lines of a help page; the mark keeps the lines as they are."""
    return "\b\n" + "\n".join(["Examples:", *(f"  {command}" for command in commands)])
