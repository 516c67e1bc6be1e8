"""Reads profiles: YAML mappings of a few known keys."""

from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

from tuner.errors import InputError, Location
from tuner.files import read_bytes
from tuner.language import _
from tuner.nesting import expect_shallow
from tuner.units import KIB

Kinds = Mapping[str, "type | tuple[type, ...]"]
_MOST_BYTES = 256 * KIB  # the largest bundled profile has 4


def read_profile(file: Path, *, required: Kinds, optional: Kinds) -> dict[str, Any]:
    """Read one profile: a YAML mapping with exactly these keys.

    Checked by hand and not by pydantic, whose import takes ten times as long as the reading.

    Raises:
        InputError: no readable file, not YAML, a key is missing or unknown, or a value is unsuitable.
    """
    import yaml

    where = Location(source=str(file))
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        text = _text(file)
        expect_shallow(text, loader)
        content = yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise InputError(_("not valid YAML: {error}").format(error=error), location=where) from None
    return check_keys(content, file=file, required=required, optional=optional)


def check_keys(
    content: Any, *, file: Path, required: Kinds, optional: Kinds, section: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The mapping itself, once it is sure to have these keys with values of these types.

    Args:
        content: what should be a mapping.
        file: it is from.
        required: keys that must be there, with the types of their values.
        optional: keys that may be there.
        section: keys that lead to it in the file.

    Raises:
        InputError: a key is missing or unknown, or a value is empty, of another type, or a number that is not
            above zero.
    """

    def place(*key: str) -> Location:
        return Location(source=str(file), line=line_of(file, (*section, *key)))

    if not isinstance(content, dict):
        raise InputError(_("not a profile: expected a mapping"), location=place())
    known = {**required, **optional}
    for key in sorted(required.keys() - content.keys()):
        raise InputError(_("is missing"), location=place(), key=key)
    for key, value in content.items():
        if key not in known:
            raise InputError(_("is not a key of a profile"), location=place(str(key)), key=str(key))
        if isinstance(value, bool) or not isinstance(value, known[key]) or not value:
            raise InputError(
                _("has an unsuitable value: {value}").format(value=shortened(value)),
                location=place(key),
                key=key,
            )
        if isinstance(value, (int, float)) and not (value > 0 and isfinite(value)):
            raise InputError(
                _("must be above zero: {value}").format(value=shortened(value)), location=place(key), key=key
            )
    return content


def _text(file: Path) -> str:
    return read_bytes(file, most=_MOST_BYTES).decode("utf-8")


def line_of(file: Path, path: tuple[str, ...]) -> int | None:
    """Where the last of some keys, each inside the one before, stands; 1-based."""
    import yaml

    node, line = yaml.compose(_text(file), Loader=yaml.SafeLoader), None
    for wanted in path:
        entries = node.value if isinstance(node, yaml.MappingNode) else []
        matches = [(key, value) for key, value in entries if key.value == wanted]
        if not matches:
            return line
        line, node = matches[-1][0].start_mark.line + 1, matches[-1][1]
    return line
