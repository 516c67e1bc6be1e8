"""Counts kept between runs, one file per configuration and set of versions, in the user's cache folder."""

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import DecodeError
from msgspec.json import decode, encode

from tuner.model_shape import ModelShape


def folder() -> Path | None:
    """The cache folder of the user, as the platform has it; None where there is none to write to."""
    stated = os.environ.get("XDG_CACHE_HOME")
    if stated and Path(stated).is_absolute():
        return Path(stated) / "tuner" / "trace"
    try:
        home = Path.home()
    except RuntimeError:  # no home directory
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "tuner" / "trace"
    if sys.platform == "win32":
        return (
            Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "tuner" / "Cache" / "trace"
        )
    return home / ".cache" / "tuner" / "trace"


def file_of(values: Mapping[str, Any], *, torch: str, transformers: str) -> Path | None:
    """The file of a configuration's counts, whether it exists or not."""
    root = folder()
    if root is None:
        return None
    content = json.dumps([values, torch, transformers, _counting()], sort_keys=True, default=str)
    return root / f"{sha256(content.encode()).hexdigest()}.json"


@lru_cache(maxsize=1)
def _counting() -> str:
    """A hash of the code that counts and of the types that a file holds: other code counts anew."""
    package = Path(__file__).parent
    files = [
        *sorted(package.glob("*.py")),
        package.parent / "traced_layers.py",
        package.parent / "model_shape.py",
    ]
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def read(file: Path | None) -> ModelShape | None:
    """The counts of a file; None where it does not exist, cannot be read or is damaged."""
    if file is None:
        return None
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    content = text.partition("\n")[2]
    if text != sealed(content):
        return None
    try:
        return decode(content, type=ModelShape)
    except DecodeError:
        return None


def write(file: Path | None, shape: ModelShape) -> None:
    """Keeps counts; where the folder cannot be written to they are counted again the next time."""
    if file is None:
        return
    content = encode(shape).decode()
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(file, sealed(content))


def sealed(content: str) -> str:
    """The text of a file: a hash of its content, by which damage is found, and the content."""
    return f"{sha256(content.encode()).hexdigest()}\n{content}"


def _write_whole(file: Path, text: str) -> None:
    """Write a file at once: another process sees the old file or the new one, never a part."""
    handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as part:
            part.write(text)
        Path(name).replace(file)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
