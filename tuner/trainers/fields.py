"""The rows of the tables: one field of a workload, how settings decide it, and what to set to make it so."""

from collections.abc import Callable, Iterable
from operator import attrgetter, not_
from typing import Any, Generic, TypeVar, Union

from msgspec import Struct

from tuner.dtypes import DType
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.units import MIB

Assignments = tuple[tuple[str, Any], ...]
"""What to set: meanings of the trainer's table of keys, with their values."""


class Context(Struct, frozen=True, kw_only=True):
    """What deciding a field takes: the settings, and in a subclass what is already known of the job."""

    source: SettingsByMeaning


C = TypeVar("C", bound=Context)


class Form(Struct, frozen=True, kw_only=True):
    """How a value stands in a configuration; ``encode`` undoes ``decode``.

    ``decode`` takes the settings, a meaning, and the value where the settings say nothing.
    """

    decode: Callable[[SettingsByMeaning, str, Any], Any]
    encode: Callable[[Any], Any] = lambda value: value


def _dtype_name(dtype: DType) -> str:
    return {DType.FLOAT32: "fp32", DType.BFLOAT16: "bf16", DType.FLOAT16: "fp16", DType.FLOAT8: "fp8"}[dtype]


def _sizes(
    source: SettingsByMeaning, meaning: str, default: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    sizes = source.sizes(meaning)
    return default if sizes is None else sizes


COUNT = Form(decode=lambda source, meaning, default: source.integer(meaning, default=default))
FLAG = Form(decode=lambda source, meaning, default: source.flag(meaning, default=default))
NEGATED_FLAG = Form(
    decode=lambda source, meaning, default: not source.flag(meaning, default=not default), encode=not_
)
DTYPE = Form(
    decode=lambda source, meaning, default: source.dtype(meaning, default=default), encode=_dtype_name
)
SIZES = Form(decode=_sizes, encode=lambda sizes: None if sizes is None else list(sizes))
MEBIBYTES = Form(
    decode=lambda source, meaning, default: source.integer(meaning, default=default // MIB) * MIB,
    encode=lambda size: size // MIB,
)


class Plain(Struct, Generic[C], frozen=True):
    """A field that is one key's value.

    What depends on the release or on what is known of the job is a function of the context.
    """

    path: str  # of the field in its part of the workload
    meaning: str | Callable[[C], str]
    form: Form
    default: Any = None  # where the settings say nothing; of a field that is never None
    heeded: Callable[[C], bool] | None = None  # None: the release always takes the value
    otherwise: Any = None  # the field where it does not
    checked: bool = False  # a wrong value is an error even where it is not taken

    def read(self, context: C) -> Any:
        """The field as the release reads it.

        Raises:
            InputError: the value has the wrong type.
        """
        heeded = self.heeded is None or self.heeded(context)
        if not heeded and not self.checked:
            return _in(context, self.otherwise)
        value = self.form.decode(context.source, self.key_meaning(context), _in(context, self.default))
        return value if heeded else _in(context, self.otherwise)

    def value(self, part: Any) -> Any:
        """The field of a part of a workload."""
        return attrgetter(self.path)(part)

    def assignments(self, context: C, part: Any) -> Assignments:
        """What makes the release read the field as it is in ``part``."""
        return ((self.key_meaning(context), self.form.encode(self.value(part))),)

    def key_meaning(self, context: C) -> str:
        """The meaning of the key that decides the field."""
        meaning: str = _in(context, self.meaning)
        return meaning


class Ruled(Struct, Generic[C], frozen=True):
    """A field that several settings decide together, by a rule that is read and written side by side."""

    path: str
    read: Callable[[C], Any]
    assignments: Callable[[C, Any], Assignments]
    of: Callable[[Any], Any] | None = None  # the field of a part; None: what stands at the path

    def value(self, part: Any) -> Any:
        """The field of a part of a workload."""
        return attrgetter(self.path)(part) if self.of is None else self.of(part)


Field = Union[Plain[C], Ruled[C]]  # noqa: UP007 - a generic alias needs the name in Python 3.10


def read_fields(fields: Iterable[Field[C]], context: C) -> dict[str, Any]:
    """The fields of one part by name; those of a struct within it under that one's name."""
    values: dict[str, Any] = {}
    for field in fields:
        outer, _, inner = field.path.rpartition(".")
        (values.setdefault(outer, {}) if outer else values)[inner] = field.read(context)
    return values


def _in(context: Context, value: Any) -> Any:
    return value(context) if callable(value) else value
