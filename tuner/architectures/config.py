"""Typed access to the keys of a Hugging Face ``config.json``."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from tuner.errors import InputError, Location
from tuner.language import N_, _

_LARGEST = 10**12  # no dimension of a model is larger
_MOST_LAYERS = 10_000  # layers are counted one by one, a typo must not take hours
_MISSING_HINT = N_("the model's size depends on it; use the config.json that belongs to the checkpoint")


class Config(Struct, frozen=True, kw_only=True):
    """One mapping of a ``config.json``; every getter checks type and range.

    A missing key means the same as one that is null, except where :meth:`stated` is asked.
    Several spellings of one key may be given; the first that is set wins.
    """

    values: Mapping[str, Any]
    source: str
    prefix: str = ""
    used: set[str] = field(default_factory=set)  # dotted keys that were asked for

    @property
    def location(self) -> Location:
        """The file, for messages."""
        return Location(source=self.source)

    def error(self, key: str, message: str, *, hint: str | None = None) -> InputError:
        """An error about one key of this file."""
        return InputError(message, location=self.location, key=f"{self.prefix}{key}", hint=hint)

    def missing(self, key: str) -> InputError:
        """The error about a key that is needed and not there."""
        return self.error(key, _("is missing"), hint=_(_MISSING_HINT))

    def stated(self, key: str) -> str:
        """The key itself, once it is sure to be there; its value may be null.

        Raises:
            InputError: it is missing.
        """
        if key not in self.values:
            raise self.missing(key)
        return key

    def find(self, *keys: str) -> tuple[str, Any]:
        """The first spelling that is set with its value, else the first spelling and None."""
        self.used.update(f"{self.prefix}{key}" for key in keys)
        return next(
            ((key, self.values[key]) for key in keys if self.values.get(key) is not None), (keys[0], None)
        )

    def size(self, *keys: str, default: int | None = None) -> int:
        """A whole number of at least 1.

        Raises:
            InputError: it is missing and has no default, or it is not such a number.
        """
        value = self.optional_size(*keys)
        if value is not None:
            return value
        if default is not None:
            return default
        raise self.missing(keys[0])

    def layers(self, *keys: str) -> int:
        """The number of layers."""
        layers = self.size(*keys)
        if layers > _MOST_LAYERS:
            raise self.error(
                keys[0],
                _("expected at most {most_layers} layers, found {layers}").format(
                    most_layers=_MOST_LAYERS, layers=layers
                ),
            )
        return layers

    def optional_size(self, *keys: str) -> int | None:
        """A whole number of at least 1, or None where the key is missing or null."""
        key, value = self.find(*keys)
        if value is None:
            return None
        return self._whole_number(key, value, minimum=1)

    def count(self, *keys: str, default: int) -> int:
        """A whole number of at least 0."""
        key, value = self.find(*keys)
        return default if value is None else self._whole_number(key, value, minimum=0)

    def _whole_number(self, key: str, value: Any, *, minimum: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, _("expected a whole number, found {value!r}").format(value=value))
        if not minimum <= value <= _LARGEST:
            raise self.error(
                key,
                _("expected a whole number of at least {minimum}, found {value}").format(
                    minimum=minimum, value=value
                ),
            )
        return value

    def flag(self, *keys: str, default: bool) -> bool:
        """True or false."""
        key, value = self.find(*keys)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(key, _("expected true or false, found {value!r}").format(value=value))
        return value

    def number(self, *keys: str) -> float | None:
        """A number above 0, or None where the key is missing or null."""
        key, value = self.find(*keys)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LARGEST:
            raise self.error(key, _("expected a number above 0, found {value!r}").format(value=value))
        return float(value)

    def text(self, *keys: str) -> str | None:
        """A string, or None where the key is missing or null."""
        key, value = self.find(*keys)
        if value is not None and not isinstance(value, str):
            raise self.error(key, _("expected a string, found {value!r}").format(value=value))
        return value

    def indices(self, key: str, *, below: int) -> tuple[int, ...]:
        """A list of layer indices, empty where the key is missing or null."""
        _found, value = self.find(key)
        if value is None:
            return ()
        if not isinstance(value, list) or any(
            isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < below for index in value
        ):
            raise self.error(
                key,
                _("expected a list of layer indices below {below}, found {value!r}").format(
                    below=below, value=value
                ),
            )
        return tuple(sorted(set(value)))

    def kinds(self, key: str, *, layers: int) -> tuple[str, ...] | None:
        """A list with one word per layer, None where the key is missing or null."""
        _found, value = self.find(key)
        if value is None:
            return None
        if not isinstance(value, list) or any(not isinstance(kind, str) for kind in value):
            raise self.error(key, _("expected a list of strings, one per layer"))
        if len(value) != layers:
            raise self.error(
                key,
                _("expected one entry for each of the {layers} layers, found {value}").format(
                    layers=layers, value=len(value)
                ),
            )
        return tuple(value)

    def section(self, key: str) -> "Config | None":
        """A mapping below this one, None where the key is missing or null."""
        _found, value = self.find(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.error(key, _("expected a mapping, found {value!r}").format(value=value))
        return Config(values=value, source=self.source, prefix=f"{self.prefix}{key}.", used=self.used)
