"""What options say of findings and of settings, and the premises that settings give where no option does."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tuner.consultation.premises import OPTIONS, Premises
from tuner.evidence import Evidence
from tuner.files import STANDARD_INPUT, is_there
from tuner.review.project.discovery import VARIABLE, nearest

if TYPE_CHECKING:
    from tuner.review.project.project import Project


class FindingOptions(Struct, frozen=True, kw_only=True):
    """Which findings are wanted, and what they are held against."""

    select: list[str] | None = None
    ignore: list[str] | None = None
    min_evidence: Evidence | None = None
    no_ignores: bool = False
    budget: str | None = None
    baseline: str | None = None
    no_baseline: bool = False
    write_baseline: str | None = None
    prune_baseline: bool = False


def words(given: list[str] | None) -> tuple[str, ...] | None:
    """The rules of an option that may be repeated and takes several at a time."""
    if given is None:
        return None
    return tuple(word.strip() for text in given for word in text.split(",") if word.strip())


class SettingsNamed(Struct, frozen=True, kw_only=True):
    """What the options say of settings files."""

    given: list[str] | None = None
    isolated: bool = False


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
    settings = {name: project.setting(_setting(name)) for name in OPTIONS if _setting(name) in _settings()}
    counted = _is_counted(premises.gpu)
    stated_values = {
        name: setting
        for name, setting in settings.items()
        if setting is not None
        and getattr(premises, name) is None
        and not (name == "gpus_per_node" and counted)
    }
    values = {name: setting.value for name, setting in stated_values.items()}
    if premises.gpus_per_node is not None and "gpu" in values:
        from tuner.gpus import counted as apart

        values["gpu"] = apart(values["gpu"])[1]
    places = tuple((name, setting.place) for name, setting in stated_values.items())
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
