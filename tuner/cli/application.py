"""The program: its commands, and the exit code and message of every outcome."""

import sys
from importlib import import_module
from typing import Annotated

import typer
from typer._click.exceptions import ClickException  # no public name in every release that is allowed

from tuner import __version__
from tuner.cli import BAD_INPUT, INTERNAL_ERROR
from tuner.cli.faults import fault_of, silence_faulty
from tuner.cli.library_words import Commands, LocalizedCommand, complain
from tuner.errors import TunerError, cut
from tuner.inputs.secrets import without_secrets
from tuner.language import _
from tuner.render.error_text import error_text, in_short
from tuner.render.terminal import plain, silence

#: Modules beside this one, in the order of the help; a command has its module's name, with hyphens.
COMMANDS = (
    *("advise", "plan", "check", "explain_oom", "config", "diff", "watch"),
    *("validate", "estimate_memory", "accuracy", "bundle", "rule", "model", "schema", "mcp", "skill"),
)


def application(first_word: str | None = None) -> typer.Typer:
    """The program.

    Args:
        first_word: the first word of the command line. Where it names a command, the others are left out: to
            import and build one takes a millisecond.
    """
    program = typer.Typer(
        name="tuner",
        cls=Commands,
        help=_(
            "Advice for reinforcement-learning post-training: does it fit, where is it tight, what to change."
        ),
        epilog=_("For example: {command}").format(command="tuner advise run.sh --gpu 8xh100-sxm")
        + "\n\n"
        + _(
            "Exit codes: 0 nothing found, 1 findings, 2 usage, bad input or a fault of the machine, "
            "3 a bug of tuner."
        ),
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    program.callback()(_root)
    named = [module for module in COMMANDS if module.replace("_", "-") == first_word]
    for module in named or COMMANDS:
        import_module(f"tuner.cli.{module}").register(program)
    for command in program.registered_commands:
        command.cls = LocalizedCommand
    return program


def run() -> int:
    """Do what the command line asks for.

    Returns:
        The exit code; what went wrong has been said.
    """
    try:
        program = application(sys.argv[1] if len(sys.argv) > 1 else None)
        code = program(standalone_mode=False)
        return code if isinstance(code, int) else 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except ClickException as error:
        error.message = _usage_error_text(error.message)
        complain(error)
        return error.exit_code
    except TunerError as error:
        _say(_("error: {error}").format(error=error_text(error)))
        return BAD_INPUT
    except BrokenPipeError:  # of the help; whatever else is printed takes care of it
        silence(sys.stdout)
        return 1
    except Exception as error:
        fault = fault_of(error)
        if fault is not None:
            silence_faulty(error)
            _say(_("error: {error}").format(error=plain(without_secrets(fault))))
            return BAD_INPUT
        if "--verbose" in sys.argv:
            import traceback

            traceback.print_exc()
        _say(
            _(
                "internal error: {name}: {error}; please report this bug with the command line and "
                "its input (--verbose shows the traceback)"
            ).format(name=type(error).__name__, error=cut(plain(without_secrets(str(error)))))
        )
        return INTERNAL_ERROR


def _version(wanted: bool) -> None:
    if wanted:
        from tuner.shipped import newest_measurement

        python = ".".join(str(part) for part in sys.version_info[:3])
        line = _("tuner {version} (Python {python}), cards measured up to {date}")
        typer.echo(line.format(version=__version__, python=python, date=newest_measurement()))
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_version, is_eager=True, help=_("Show the version and exit.")
        ),
    ] = False,
    lang: Annotated[
        str | None,
        typer.Option(
            "--lang",
            metavar="LANGUAGE",
            help=_(
                "Language of everything that is said, en or zh; TUNER_LANG sets it as well. "
                "May stand anywhere."
            ),
            show_default=False,
        ),
    ] = None,
) -> None:
    pass  # the language has been chosen before, see tuner.cli.language


def _usage_error_text(message: str) -> str:
    """What typer says of an option or a command that it does not take."""
    return in_short(message) or "" if len(sys.argv) > 1 else message  # the help, where nothing was typed


def _say(message: str) -> None:
    """Print one line of an error."""
    typer.echo(message, err=True)
