"""A process looks for settings once, and tests write them anew."""

import pytest

from tuner.review.project.discovery import VARIABLE, nearest
from tuner.review.project.read import budgets_of, layers_of


def forget() -> None:
    """Look for settings again."""
    for remembered in (nearest, layers_of, budgets_of):
        remembered.cache_clear()


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    forget()
