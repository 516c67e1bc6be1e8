"""What an override changes, read once for all kinds of files."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tuner.errors import TunerError
from tuner.inputs.overrides import OverrideKind, on_command_line, parse_overrides
from tuner.inputs.secrets import HIDDEN
from tuner.inputs.tree import Path, split_key
from tuner.language import _
from tuner.review.fixes.edits import CannotEditError


class KeyEdit(Struct, frozen=True, kw_only=True):
    """One key that gets another value, or is taken away."""

    path: Path
    value: Any
    deletes: bool
    override: str  # as it would be pasted

    @property
    def spelled(self) -> str:
        """The value as Hydra's grammar has it."""
        return self.override.partition("=")[2]


def key_of(override: str) -> Path:
    """The key that an override names, as a path."""
    return split_key(override.lstrip("+~").partition("=")[0])


def changes(overrides: Sequence[str]) -> tuple[KeyEdit, ...]:
    """The changes that overrides make.

    Raises:
        CannotEditError: an override is more than a key with a value.
    """
    try:
        parsed = parse_overrides(on_command_line(overrides)).overrides
    except TunerError as error:
        raise CannotEditError(error.message) from None
    if len(parsed) != len(overrides):
        raise CannotEditError(_("it is an option of Hydra, not a key"))
    made = []
    for override, text in zip(parsed, overrides, strict=True):
        if override.package is not None or "/" in override.key:
            raise CannotEditError(_("{override} chooses a group of settings").format(override=text))
        if HIDDEN in text:
            raise CannotEditError(_("the value may be a secret"))
        made.append(
            KeyEdit(
                path=split_key(override.key),
                value=override.value,
                deletes=override.kind is OverrideKind.DELETE,
                override=text,
            )
        )
    return tuple(made)
