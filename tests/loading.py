"""A configuration on the defaults of a bundled release of verl, in one call."""

from collections.abc import Sequence
from pathlib import Path

from tuner.trainers import verl
from tuner.trainers.protocol import Loaded


def load(path: Path | None, overrides: Sequence[str], *, version: str) -> Loaded:
    """Read a file, overrides, or both, as the command line does."""
    return verl.parse(path, overrides).on(version)
