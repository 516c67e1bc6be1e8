"""The lines of released code that refusals rest on: what looking for the guards found in each wheel."""

import json
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("guards.json")

GuardsByRelease = dict[str, dict[str, dict[str, list[str]]]]
"""Lines such as ``trainer/ppo/ray_trainer.py:358``, by release, by code of the check and by words of the guard."""


@cache
def read() -> GuardsByRelease:
    """The whole table."""
    table: GuardsByRelease = json.loads(FILE.read_text("utf-8")) if FILE.is_file() else {}
    return table
