"""Premises that the settings of a project give, where no option gives them."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from tuner.consultation.premises import OPTIONS, Premises
from tuner.files import STANDARD_INPUT, is_there
from tuner.language import _
from tuner.review.project.discovery import VARIABLE, nearest

if TYPE_CHECKING:
    from tuner.review.project.project import Project


class SettingsNamed(Struct, frozen=True, kw_only=True):
    """What the options say of settings files."""

    given: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="FILE|'KEY = VALUE'",
            help=_(
                "Settings of the project: their file, in place of the tuner.toml, .tuner.toml or "
                "pyproject.toml that is nearest to the input, or a setting in TOML. May be repeated."
            ),
            show_default=False,
        ),
    ] = None
    isolated: Annotated[bool, typer.Option("--isolated", help=_("Look for no settings of a project."))] = (
        False
    )


def project_for(config: str, named: SettingsNamed) -> "Project | None":
    """The settings for an input; None where there are none, which is found out without reading anything.

    Args:
        config: a file or folder, ``-``, or the first word of a command as it is typed.
        named: what the options say.

    Raises:
        InputError: they cannot be used.
    """
    file = None if config == STANDARD_INPUT or not is_there(config) else Path(config)
    if not named.given:
        folder = Path.cwd() if file is None else Path(os.path.abspath(file)).parent  # noqa: PTH100
        if named.isolated or not (os.environ.get(VARIABLE) or nearest(folder)):
            return None
    from tuner.review.project.project import Named, project_of

    return project_of(file, Named(given=tuple(named.given or ()), isolated=named.isolated))


def with_project_settings(premises: Premises, project: "Project | None") -> Premises:
    """The premises with what the settings say beside the options; an option wins over a setting."""
    if project is None:
        return premises
    said = {name: project.said(_setting(name)) for name in OPTIONS if _setting(name) in _settings()}
    counted = _is_counted(premises.gpu)
    found = {
        name: setting
        for name, setting in said.items()
        if setting is not None
        and getattr(premises, name) is None
        and not (name == "gpus_per_node" and counted)
    }
    values = {name: setting.value for name, setting in found.items()}
    if premises.gpus_per_node is not None and "gpu" in values:
        from tuner.gpus import counted as apart

        values["gpu"] = apart(values["gpu"])[1]
    places = tuple((name, setting.place) for name, setting in found.items())
    return replace(premises, **values, places=places)


def _is_counted(gpu: str | None) -> bool:
    """Whether an option names a card with how many there are: ``8xh100``."""
    if gpu is None:
        return False
    from tuner.gpus import counted

    return counted(gpu)[0] is not None


def _setting(name: str) -> str:
    return OPTIONS[name].removeprefix("--").replace("-", "_")


def _settings() -> tuple[str, ...]:
    from tuner.review.project.schema import PREMISES

    return PREMISES
