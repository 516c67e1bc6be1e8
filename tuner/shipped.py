"""Where the files lie that ship with the package but are not Python."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tuner.errors import InputError
from tuner.language import _

_PROFILE = ".yaml"
_DATE = re.compile(r'^ +date: "([0-9]{4}-[0-9]{2}-[0-9]{2})"', re.MULTILINE)
_PACKAGE = Path(__file__).resolve().parent


def profiles() -> Path:
    """Folder with ``gpus/`` and ``models/``.

    Raises:
        InputError: the installation lacks the folder.
    """
    return _data("profiles")


def profiles_of(kind: str, *, likely: str = "") -> Iterator[Path]:
    """The profiles of a kind by name, those first whose name begins another one.

    Args:
        kind: the folder, ``models`` or ``gpus``.
        likely: what is looked for; ``qwen2.5-7b-instruct`` most likely stands in ``qwen2.5-7b.yaml``.

    Raises:
        InputError: the installation lacks the folder.
    """
    folder = profiles() / kind
    names = sorted(file.name for file in os.scandir(folder) if file.name.endswith(_PROFILE))
    names.sort(key=lambda name: not likely.startswith(name.removesuffix(_PROFILE)))
    return (folder / name for name in names)


def newest_measurement() -> str:
    """The newest date on which something in the cards' profiles was measured, such as 2026-11-28.

    Raises:
        InputError: the installation lacks the profiles.
    """
    texts = (file.read_text(encoding="utf-8") for file in profiles_of("gpus"))
    return max(match[1] for text in texts for match in _DATE.finditer(text))


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
        _("the installation is incomplete: neither {installed} nor {checkout} exists").format(
            installed=installed, checkout=checkout
        ),
        hint=_("reinstall tuner, or run it from a complete checkout"),
    )
