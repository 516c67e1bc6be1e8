"""Options of ``tuner validate`` alone: what is run on the GPUs of which nodes, and what is written."""

from typing import Annotated, Literal

import typer

from tuner.language import _
from tuner.validate.parts import ValidationPart

Budget = Annotated[
    str,
    typer.Option(
        "--budget",
        metavar="TIME",
        help=_("Time for the whole run: 120s, 2m or 90, which is in seconds."),
    ),
]
_PARTS = [part.value for part in ValidationPart]
Parts = Annotated[
    str | None,
    typer.Option(
        "--parts",
        metavar="PART,...",
        help=_("What to run, of {parts} and {last}; everything that can run here.").format(
            parts=", ".join(_PARTS[:-1]), last=_PARTS[-1]
        ),
        show_default=False,
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--nproc",
        min=1,
        metavar="COUNT",
        help=_("GPUs of this node that take part; all, but not more than the configuration has."),
        show_default=False,
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help=_("Memory of each GPU that may be taken, such as 60GiB; buffers of NCCL come on top."),
        show_default=False,
    ),
]
Device = Annotated[
    Literal["cuda", "cpu"],
    typer.Option("--device", help=_("cpu tries the whole run without a GPU; its times say nothing.")),
]
WriteProfile = Annotated[
    str | None,
    typer.Option(
        "--write-profile",
        metavar="NAME",
        help=_("Write what was measured into a hardware profile of this name."),
        show_default=False,
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help=_("Write the report as JSON into this file too; tuner accuracy reads it."),
        show_default=False,
    ),
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help=_("Run on every node of this Ray cluster, one task each; auto takes the running one."),
        show_default=False,
    ),
]
