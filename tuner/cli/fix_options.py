"""Options of ``tuner check`` that fix what is found."""

from typing import Annotated

import typer
from msgspec import Struct

from tuner.language import _


class FixOptions(Struct, frozen=True, kw_only=True):
    """Whether files are fixed, or a diff is shown of what would be."""

    fix: Annotated[
        bool,
        typer.Option("--fix", help=_("Fix in the files what can be fixed without changing the training.")),
    ] = False
    unsafe_fixes: Annotated[
        bool,
        typer.Option(
            "--unsafe-fixes", help=_("With --fix or --diff: fix also what may change the training.")
        ),
    ] = False
    diff: Annotated[
        bool,
        typer.Option(
            "--diff", help=_("Write nothing: print what --fix would do as a diff; exit code 1 if it is any.")
        ),
    ] = False

    @property
    def wanted(self) -> bool:
        """Whether anything is fixed or shown."""
        return self.fix or self.diff
