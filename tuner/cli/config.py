"""``tuner config``: the settings that a configuration comes to, and where each of them comes from."""

import sys
from typing import Annotated, Literal

import typer

from tuner.cli import options, premise_options
from tuner.cli.premises import Premises, with_premises
from tuner.cli.project_settings import SettingsNamed, project_for, settled
from tuner.language import _

EXAMPLES = options.examples(
    "tuner config run.sh RESPONSES=8",
    "tuner config config.yaml actor_rollout_ref.rollout.n=8 --all",
    "tuner config run.sh --verl-version 0.7.1 --output-format overrides",
    "tuner config run.sh --all --output-format yaml > resolved.yaml",
)

_MOST_OF_A_LINE = 2_000  # characters on standard error: it names the keys that follow one


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="config", help=options.summary(config), epilog=EXAMPLES, context_settings=options.PASTED
    )(with_premises(config))


def config(
    source: options.Config,
    overrides: options.Overrides = None,
    *,
    output_format: Annotated[
        Literal["text", "yaml", "json", "overrides"],
        typer.Option(
            "--output-format",
            "-f",
            help=_("Text to read, YAML or overrides that give the same settings again, or JSON."),
        ),
    ] = "text",
    every: Annotated[
        bool, typer.Option("--all", help=_("All settings, not those alone that differ from the release's."))
    ] = False,
    named: SettingsNamed,
    verl_version: premise_options.VerlVersion = None,
    launch: options.WhichLaunch = None,
    color: options.Colour = "auto",
    verbose: options.Verbose = False,
) -> None:
    """Print the settings that a configuration comes to, and where each comes from.

    A line of a file, an override, or the release itself; interpolations are resolved and secrets hidden.
    """
    from msgspec.structs import replace

    from tuner.cli.pipeline import configuration_of, release_of
    from tuner.errors import cut
    from tuner.inputs.reading import read_given
    from tuner.render.settings_text import not_known, settings_overrides, settings_text
    from tuner.render.settings_view import settings_view
    from tuner.render.terminal import Terminal, plain, write

    words = overrides or ()
    options.refuse_misspelled((source, *words), with_premises(config))
    premises = settled(Premises(verl_version=verl_version), project_for(source, named))
    given = read_given(source, words, launch=launch)
    with premises.blamed("verl_version"):
        release = release_of(given, premises.verl_version)
    release = replace(release, reason=premises.because("verl_version", release.reason))
    configuration = configuration_of(given)
    given = replace(given, remarks=(*given.remarks, *configuration.remarks(release.version)))
    loaded = configuration.on(release.version)
    view = settings_view(given, release, loaded)
    if output_format == "json":
        from tuner.render.settings_report import settings_json

        write(sys.stdout, settings_json(view, every=every))
    elif output_format == "text":
        write(sys.stdout, settings_text(view, Terminal.of(sys.stdout, color), every=every))
    else:
        if output_format == "yaml":
            from tuner.render.settings_yaml import settings_yaml

            write(sys.stdout, settings_yaml(view, every=every))
        else:
            write(sys.stdout, settings_overrides(view))
        for line in not_known(view):
            write(sys.stderr, cut(plain(line), _MOST_OF_A_LINE))
