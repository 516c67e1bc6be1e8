"""The command line. Only this package catches errors and sets exit codes.

A command's module imports what it needs when it runs, so that help and errors come at once.
"""

import gc
import sys
import traceback
from typing import Annotated

import typer

from tuner import __version__
from tuner.cli import accuracy, advise, check, estimate_memory, rule, schema, validate
from tuner.cli.exit_codes import BAD_INPUT, INTERNAL_ERROR, INTERRUPTED
from tuner.errors import TunerError
from tuner.render.terminal import plain, silence

_COLLECT_AFTER = 100_000  # objects; a run is short, and collecting as often as usual takes a tenth of it

app = typer.Typer(
    name="tuner",
    help="Advice for reinforcement-learning post-training: does it fit, where is it tight, what to change.",
    epilog="Exit codes: 0 nothing found, 1 findings, 2 usage or bad input, 3 a bug of tuner.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for _command in (advise, check, validate, estimate_memory, accuracy, rule):
    _command.register(app)
schema.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        python = ".".join(str(part) for part in sys.version_info[:3])
        typer.echo(f"tuner {__version__} (Python {python})")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """The entry point: every outcome becomes an exit code and at most one message."""
    gc.set_threshold(_COLLECT_AFTER)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run()
        _flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _run() -> int:
    try:
        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except TunerError as error:
        _complain(f"error: {plain(error)}")
        return BAD_INPUT
    except Exception as error:
        if "--verbose" in sys.argv:
            traceback.print_exc()
        _complain(
            f"internal error: {type(error).__name__}: {plain(error)}; please report this bug with the "
            "command line and its input (--verbose shows the traceback)"
        )
        return INTERNAL_ERROR
    return 0


def _complain(message: str) -> None:
    typer.echo(message, err=True)


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        silence(sys.stdout)
