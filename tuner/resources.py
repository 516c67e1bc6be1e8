"""The files that ship with the package but are not Python: where they lie, and reading profiles."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.errors import InputError, Location

_PACKAGE = Path(__file__).resolve().parent


def profiles() -> Path:
    """Folder with ``gpus/`` and ``models/``.

    Raises:
        InputError: the installation lacks the folder.
    """
    return _data("profiles")


def locale_dir() -> Path:
    """Folder with the translations, one sub-folder per language.

    Raises:
        InputError: the installation lacks the folder.
    """
    return _data("locale")


def _data(name: str) -> Path:
    # A wheel carries the folder inside the package; a checkout has it beside the package.
    installed = _PACKAGE / "_data" / name
    checkout = _PACKAGE.parent / name
    for folder in (installed, checkout):
        if folder.is_dir():
            return folder
    raise InputError(
        f"the installation is incomplete: neither {installed} nor {checkout} exists",
        hint="reinstall tuner, or run it from a complete checkout",
    )


Kinds = Mapping[str, "type | tuple[type, ...]"]


def read_profile(file: Path, *, required: Kinds, optional: Kinds) -> dict[str, Any]:
    """Read one profile: a YAML mapping with exactly these keys.

    Checked by hand and not by pydantic, whose import takes ten times as long as the reading.

    Raises:
        InputError: not YAML, a key is missing or unknown, or a value is empty or of another type.
    """
    import yaml

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        content = yaml.load(file.read_text(encoding="utf-8"), Loader=loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"not valid YAML: {error}", location=Location(source=str(file))) from None
    return check_keys(content, file=file, required=required, optional=optional)


def check_keys(content: Any, *, file: Path, required: Kinds, optional: Kinds) -> dict[str, Any]:
    """The mapping itself, once it is sure to have these keys with values of these types.

    Raises:
        InputError: a key is missing or unknown, or a value is empty or of another type.
    """
    location = Location(source=str(file))
    if not isinstance(content, dict):
        raise InputError("not a profile: expected a mapping", location=location)
    known = {**required, **optional}
    for key in sorted(required.keys() - content.keys()):
        raise InputError("is missing", location=location, key=key)
    for key, value in content.items():
        if key not in known:
            raise InputError("is not a key of a profile", location=location, key=str(key))
        if isinstance(value, bool) or not isinstance(value, known[key]) or not value:
            raise InputError(f"has an unsuitable value: {value!r}", location=location, key=key)
    return content
