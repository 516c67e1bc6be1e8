"""Settings as one release reads them: looked up by meaning, typed, with the place of a bad value."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

from msgspec import Struct

from tuner.dtypes import DType, parse_dtype
from tuner.errors import InputError
from tuner.inputs.settings import Settings
from tuner.language import _
from tuner.trainers.verl.keys import key
from tuner.trainers.verl.programs import Program, program_of
from tuner.trainers.verl.releases import ENGINE_PREVIEW, PREVIEWS, reaches

_T = TypeVar("_T")
Role = Literal["actor", "ref", "critic", "reward"]
ROLES: tuple[Role, ...] = ("actor", "ref", "critic")


class ReleaseSettings(Struct, frozen=True, kw_only=True):
    """Settings and the release that reads them.

    A meaning that the release has no key for reads as the getter's default.
    """

    settings: Settings
    version: str  # of the keys: one of PREVIEWS for 0.7 with its new workers
    v1_trainer: bool  # the trainer of 0.9 and later that ignores the critic's batch keys
    program: Program = Program.PPO  # whose keys count

    def since(self, version: str) -> bool:
        """Whether the release is this one or newer."""
        return reaches(self.version, version)

    @property
    def engine_workers(self) -> bool:
        """Whether the model engines run the models, instead of the legacy workers or a trainer of its own."""
        if self.program is Program.PPO:
            return self.since(ENGINE_PREVIEW)
        return self.program is Program.SFT_ENGINE

    def key(self, meaning: str) -> str | None:
        """The key of a meaning in this release, None where it has none."""
        return key(meaning, self.version, self.program)

    def value(self, meaning: str) -> Any:
        """The resolved value as it stands, None where it is absent or null."""
        name = self.key(meaning)
        return None if name is None else self.settings.get(name)

    @overload
    def integer(self, meaning: str, *, default: int, minimum: int = 1) -> int: ...
    @overload
    def integer(self, meaning: str, *, default: None = None, minimum: int = 1) -> int | None: ...
    def integer(self, meaning: str, *, default: int | None = None, minimum: int = 1) -> int | None:
        """A whole number, by default at least 1."""
        name = self.key(meaning)
        if name is None:
            return default
        value = self.settings.integer(name, minimum=minimum)
        return default if value is None else value

    def number(
        self, meaning: str, *, default: float, minimum: float | None = None, maximum: float | None = None
    ) -> float:
        """A number within bounds."""
        name = self.key(meaning)
        return (
            default
            if name is None
            else self.settings.number(name, default=default, minimum=minimum, maximum=maximum)
        )

    def flag(self, meaning: str, *, default: bool = False) -> bool:
        """A switch."""
        name = self.key(meaning)
        return default if name is None else self.settings.flag(name, default=default)

    def text(self, meaning: str, *, default: str) -> str:
        """A word."""
        name = self.key(meaning)
        return default if name is None else self.settings.text(name, default=default)

    def choice(self, meaning: str, choices: tuple[str, ...], *, default: str) -> str:
        """The value of a key that may have one of some words."""
        name = self.key(meaning)
        return default if name is None else self.settings.choice(name, choices, default=default)

    def dtype(self, meaning: str, *, default: DType) -> DType:
        """A dtype in any spelling of it."""
        name = self.key(meaning)
        text = None if name is None else self.settings.text(name)
        if name is None or text is None:
            return default
        try:
            return parse_dtype(text)
        except InputError as error:
            raise self.error(meaning, error.message, hint=error.hint) from None

    def sizes(self, meaning: str) -> tuple[int, ...] | None:
        """A list of positive whole numbers, None where it is absent or null."""
        raw = self.value(meaning)
        if raw is None:
            return None
        if isinstance(raw, list) and all(type(item) is int and item > 0 for item in raw):
            return tuple(sorted(raw))
        raise self.error(meaning, _("expected a list of positive whole numbers, got {raw!r}").format(raw=raw))

    def names(self, meaning: str) -> str | tuple[str, ...] | None:
        """The name of a module, or a list of them; None where it is absent or null."""
        raw = self.value(meaning)
        if raw is None or isinstance(raw, str):
            return raw
        if isinstance(raw, list) and all(isinstance(name, str) for name in raw):
            return tuple(raw)
        raise self.error(meaning, _("expected names of modules, got {raw!r}").format(raw=raw))

    def part(self, name: str, reader: Callable[..., _T], *arguments: Any) -> _T:
        """What a reader makes of this source and its arguments, by a name of its own.

        It is asked again only where these or the values that it looked at are others.
        """
        given = (self.version, self.v1_trainer, self.program, *arguments)
        return self.settings.part(name, given, lambda: reader(self, *arguments))

    def error(self, meaning: str, message: str, *, hint: str | None = None) -> InputError:
        """An error about the value of a meaning, with the place it came from."""
        name = self.key(meaning)
        origin = None if name is None else self.settings.origin(name)
        return InputError(message, key=name, location=origin.location if origin else None, hint=hint)


def source_of(settings: Settings, version: str) -> ReleaseSettings:
    """Settings under a release, with the generation of workers that they pick.

    Raises:
        InputError: a switch that picks the trainer or its workers has a value of the wrong type.
    """
    program = program_of(settings.defaults)
    if program.fine_tunes:
        return ReleaseSettings(settings=settings, version=version, v1_trainer=False, program=program)
    workers = key("legacy_workers", version)
    if workers is not None and settings.text(workers, default="auto") == "disable":
        version = PREVIEWS.get(version, version)
    v1 = key("v1_trainer", version)
    return ReleaseSettings(
        settings=settings, version=version, v1_trainer=v1 is not None and settings.flag(v1, default=True)
    )
