"""What a terminal says of itself must not change what is tested; tests that are about it say so.

Most tests here answer a launch or several: an eighth of those that say nothing else runs on a day.
"""

import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
SHARE = 8


@pytest.hookimpl(tryfirst=True)  # before those are left out whose turn is another day
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    below = f"{FOLDER}{os.sep}"
    for item in items:
        if str(item.path).startswith(below) and item.get_closest_marker("sampled") is None:
            item.add_marker(pytest.mark.sampled(SHARE))


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
