"""Where the files lie that ship with the package but are not Python."""

from pathlib import Path

from tuner.errors import InputError
from tuner.language import _

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
        _("the installation is incomplete: neither {installed} nor {checkout} exists").format(
            installed=installed, checkout=checkout
        ),
        hint=_("reinstall tuner, or run it from a complete checkout"),
    )
