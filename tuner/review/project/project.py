"""The settings that are meant for one input: which file holds them, and what it says of that input."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from tuner.errors import InputError, Location
from tuner.files import is_there
from tuner.language import _
from tuner.review.project.discovery import VARIABLE, matches, nearest
from tuner.review.project.read import PlacedBudget, SettingsFile, inline_layer, layers_of, placed
from tuner.review.project.schema import PREMISES


class Named(Struct, frozen=True, kw_only=True):
    """What the command line says of settings files."""

    given: tuple[str, ...] = ()  # of --config: a file, or settings in TOML
    isolated: bool = False  # take no file but those that are given


class StatedSetting(Struct, frozen=True, kw_only=True):
    """A setting of a project, and where it stands."""

    value: Any
    place: Location


class Project(Struct, frozen=True, kw_only=True):
    """All settings that may concern one input; a later layer wins over an earlier one."""

    layers: tuple[SettingsFile, ...] = ()
    file: Path | None = None  # the input; None of what is typed or read from standard input

    def setting(self, name: str) -> StatedSetting | None:
        """A setting by the name of its field; None where nobody says it."""
        return next(self._stated_settings(name), None)

    def value(self, name: str, default: Any = None) -> Any:
        """The value of a setting."""
        stated = self.setting(name)
        return default if stated is None else stated.value

    def premises(self) -> dict[str, StatedSetting]:
        """What is said of the job, by the names of the options in snake case."""
        settings = ((name, self.setting(name)) for name in PREMISES)
        return {name: stated for name, stated in settings if stated is not None}

    def path(self, name: str) -> Path | None:
        """A setting that names a file, from the folder of the settings on."""
        for layer in reversed(self.layers):
            value = getattr(layer.settings, name)
            if value is not None:
                return layer.folder / str(value)
        return None

    @property
    def budgets(self) -> tuple[PlacedBudget, ...]:
        """The budgets of all layers."""
        return tuple(
            budget
            for layer in self.layers
            for budget in placed(layer.settings.budget, layer.folder, layer.place)
        )

    def _stated_settings(self, name: str) -> Iterator[StatedSetting]:
        """The setting wherever it is said, the one that wins first."""
        for layer in reversed(self.layers):
            for number, part in reversed(list(enumerate(layer.settings.per_file))):
                value = getattr(part, name, None)
                if value is not None and self.file and matches(self.file, part.files, layer.folder):
                    yield StatedSetting(value=value, place=layer.place("per-file", number, _key(name)))
        for layer in reversed(self.layers):
            value = getattr(layer.settings, name)
            if value is not None:
                yield StatedSetting(value=value, place=layer.place(_key(name)))


def project_of(file: Path | None, named: Named) -> Project:
    """The settings of one input.

    Args:
        file: the input; None of a command as it is typed and of standard input, which take those of the
            working folder.
        named: what the command line says.

    Raises:
        InputError: a settings file is not there, malformed, or says what no setting takes.
    """
    files, inline = _sorted(named.given)
    if named.isolated and files:
        raise InputError(
            _("--isolated takes no settings file, and --config names {file}").format(file=files[0]),
            hint=_("leave one of them out"),
        )
    absolute = None if file is None else Path(os.path.abspath(file))  # noqa: PTH100 - links stay as they are
    chosen: Path | None = None
    if not named.isolated:
        chosen = Path(os.path.abspath(files[-1])) if files else _project_file(absolute)  # noqa: PTH100
    layers = () if chosen is None else layers_of(chosen)
    return Project(layers=(*layers, *map(inline_layer, inline)), file=absolute)


def _project_file(file: Path | None) -> Path | None:
    from_environment = os.environ.get(VARIABLE)
    if from_environment:
        return Path(os.path.abspath(from_environment))  # noqa: PTH100 - links stay as they are
    return nearest(Path.cwd() if file is None else file.parent)


def _sorted(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """What ``--config`` gives, files and settings apart.

    Raises:
        InputError: several files are named.
    """
    inline = [text for text in given if "=" in text and not is_there(text)]
    files = [text for text in given if text not in inline]
    if len(files) > 1:
        raise InputError(
            _("--config names {count} files").format(count=len(files)),
            hint=_("name one, which may extend another"),
        )
    return files, inline


def _key(name: str) -> str:
    return name.replace("_", "-")
