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
EngineVersion = Annotated[
    str | None,
    typer.Option(
        "--engine-version",
        metavar="VERSION",
        help="Version of the rollout engine to go by, such as 0.8.5 of vLLM; the installed one unless "
        "--verl-version is given, else the newest that the release of verl allows.",
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
Trace = Annotated[
    bool,
    typer.Option(
        "--trace",
        help="Count the model's tensors in transformers' implementation instead of deriving them; for "
        "architectures that the formulas do not know. Takes seconds the first time.",
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
FailedAllocation = Annotated[
    str | None,
    typer.Option(
        "--failed-allocation",
        metavar="SIZE|LINE",
        help="Explain an out-of-memory error: its size, such as '18.54 GiB', or its whole line.",
        show_default=False,
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
