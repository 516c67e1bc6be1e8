"""Reads the settings of a project, with those that they extend, as layers that are laid on one another."""

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from tuner.errors import InputError, Location
from tuner.language import _
from tuner.review.project.discovery import SHARED_NAME, TABLE
from tuner.review.project.schema import Budget, BudgetFile, ProjectSettings
from tuner.review.project.toml import KeyPath, parse_toml, place_of, read_toml
from tuner.review.project.value_types import as_struct

_DEEPEST = 8  # files that extend one another


class SettingsFile(Struct, frozen=True, kw_only=True, eq=False):
    """One settings file, or settings of the command line."""

    settings: ProjectSettings
    folder: Path  # which its paths and patterns start from
    text: str
    source: str  # as errors and answers name it
    above: KeyPath = ()  # the table that the settings stand in

    def place(self, *path: str | int) -> Location:
        """Where a setting stands."""
        return place_of(self.text, (*self.above, *path), source=self.source)


@lru_cache(maxsize=256)
def layers_of(file: Path) -> tuple[SettingsFile, ...]:
    """The settings of a file, behind those that it extends.

    Raises:
        InputError: one of the files cannot be read, or says what no setting takes.
    """
    return tuple(reversed(list(_chain(file))))


def _chain(file: Path) -> Iterator[SettingsFile]:
    files: list[Path] = []
    place: Location | None = None
    following: Path | None = file
    while following is not None:
        if following in files or len(files) == _DEEPEST:
            raise InputError(_("these settings extend themselves, or too many others"), location=place)
        files.append(following)
        layer = _layer(following, place)
        yield layer
        name = layer.settings.extend
        place = None if name is None else layer.place("extend")
        following = None if name is None else (layer.folder / name).resolve()


def _layer(file: Path, asked_at: Location | None) -> SettingsFile:
    source = shown(file)
    try:
        text, values = read_toml(file, source=source)
    except InputError as error:
        if asked_at is None or (error.location is not None and error.location.line is not None):
            raise
        raise InputError(f"{error.location}: {error.message}", location=asked_at, hint=error.hint) from None
    above: KeyPath = TABLE if file.name == SHARED_NAME else ()
    section: Any = values
    for key in TABLE if above else ():
        section = section.get(key, {}) if isinstance(section, dict) else {}
    settings = as_struct(
        section, ProjectSettings, lambda path: place_of(text, (*above, *path), source=source)
    )
    return SettingsFile(settings=settings, folder=file.parent, text=text, source=source, above=above)


def inline_layer(text: str) -> SettingsFile:
    """Settings as ``--config 'key = value'`` gives them.

    Raises:
        InputError: it is no TOML, or says what no setting takes.
    """
    source = "--config"

    def place(_path: KeyPath) -> Location:
        return Location(source=source)

    try:
        values = parse_toml(text, source=source)
    except InputError as error:
        hint = _("""write it as --config 'nodes = 2' or --config 'gpu = "h100-sxm"'""")
        raise InputError(error.message, location=error.location, hint=hint) from None
    settings = as_struct(values, ProjectSettings, place)
    if settings.extend is not None:
        raise InputError(
            _("a file extends another one; name it by --config FILE"), location=place(()), key="extend"
        )
    return SettingsFile(settings=settings, folder=Path.cwd(), text="", source=source)


@lru_cache(maxsize=16)
def budgets_of(file: Path) -> tuple["PlacedBudget", ...]:
    """The budgets of a budget file.

    Raises:
        InputError: it cannot be read, or is none.
    """
    source = shown(file)
    text, values = read_toml(file, source=source)
    place = partial(_place, text, source)
    budgets = as_struct(values, BudgetFile, place).budget
    return placed(budgets, file.parent, lambda *path: place(path))


class PlacedBudget(Struct, frozen=True, kw_only=True, eq=False):
    """A budget and where it stands."""

    budget: Budget
    folder: Path
    place: Callable[..., Location]  # of a key of it


def placed(
    budgets: tuple[Budget, ...], folder: Path, place: Callable[..., Location]
) -> tuple[PlacedBudget, ...]:
    """Budgets with their places.

    Args:
        budgets: as a file has them.
        folder: which their patterns start from.
        place: finds a key of the file.
    """
    return tuple(
        PlacedBudget(budget=budget, folder=folder, place=partial(place, "budget", number))
        for number, budget in enumerate(budgets)
    )


def _place(text: str, source: str, path: KeyPath) -> Location:
    return place_of(text, path, source=source)


def shown(file: Path) -> str:
    """A file as answers name it: from the working folder on where it lies below that."""
    try:
        return str(file.relative_to(Path.cwd()))
    except ValueError:
        return str(file)
