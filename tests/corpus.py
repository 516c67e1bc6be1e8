"""Facts that tests hold the tool to, from ``tests/data``: launches, outcomes and flattened defaults."""

import json
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


@cache
def launches() -> list[dict[str, Any]]:
    """Every launch of verl's own example scripts: its path and commit, releases, entry point, overrides."""
    return _lines("verl-launches.jsonl")


@cache
def outcomes() -> dict[str, dict[str, Any]]:
    """Real jobs and what came of them, by the record's name."""
    return {record["id"]: record for record in _lines("outcomes.jsonl")}


@cache
def flattened_defaults() -> dict[tuple[str, str], dict[str, Any]]:
    """Keys and values of verl's defaults by release and configuration, flattened without this package."""
    flat: dict[tuple[str, str], dict[str, Any]] = {}
    for config, key, values in _lines("verl-defaults.jsonl"):
        for value, releases in values:
            for release in releases:
                flat.setdefault((release, config), {})[key] = {} if value == "{}" else value
    return flat


def _lines(name: str) -> list[Any]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]
