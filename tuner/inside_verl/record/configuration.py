"""The configuration beside a record, as YAML without secrets."""

import os
from pathlib import Path
from typing import Any

import yaml

from tuner.inputs.secrets import hidden_value


def write_configuration(file: Path, tree: dict[str, Any], comment: str = "") -> None:
    """Write a configuration; who reads meanwhile sees the old one or the new one, never a part.

    Args:
        file: to write.
        tree: resolved, of plain values.
        comment: lines above it.

    Raises:
        OSError: it cannot be written.
    """
    lines = "".join(f"# {line}\n" for line in comment.splitlines())
    text = lines + yaml.safe_dump(_plain(hidden_value("", _plain(tree))), sort_keys=False, allow_unicode=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(file)


def _plain(value: Any) -> Any:
    """A value that YAML has a form for; any other object as its text."""
    if isinstance(value, dict):
        return {str(key): _plain(child) for key, child in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(child) for child in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
