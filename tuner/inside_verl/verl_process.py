"""The process of verl that this runs in: its release, its configuration and its log."""

import logging
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

LOGGER = logging.getLogger("tuner.inside_verl")


def configured(config: Any, path: str) -> Any:
    """The value under a path such as ``policy_loss.loss_mode``; None where there is none."""
    for name in path.split("."):
        config = config.get(name) if hasattr(config, "get") else getattr(config, name, None)
        if config is None:
            return None
    return config


def running_release() -> str | None:
    """The release of verl that is imported, else of the one that would be; None without verl.

    Sources on the search path count, for which no package is installed: verl keeps its version in a file.
    """
    imported = getattr(sys.modules.get("verl"), "__version__", None)
    if isinstance(imported, str):
        return imported
    try:
        spec = find_spec("verl")
    except ValueError:  # a module without a specification stands in for it
        return None
    if spec is None or not spec.origin:
        return None
    try:
        return (Path(spec.origin).parent / "version" / "version").read_text(encoding="utf-8").strip()
    except OSError:
        return None


def say(line: str) -> None:
    """One line into the log of this process, at a level that verl's own setting would hide."""
    LOGGER.setLevel(logging.INFO)
    if not LOGGER.hasHandlers():
        LOGGER.addHandler(logging.StreamHandler())
        LOGGER.propagate = False  # to handlers that come later, which would say it again
    LOGGER.info("tuner.inside_verl: %s", line)
