"""What a terminal says of itself must not change what is tested; tests that are about it say so.

Most tests here answer a launch or several: a quarter of those that say nothing else runs on a day.
"""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
SHARE = 4


@pytest.hookimpl(tryfirst=True)  # before those are left out whose turn is another day
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents and item.get_closest_marker("sampled") is None:
            item.add_marker(pytest.mark.sampled(SHARE))


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def plans_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that several formats show is made once."""
    from tests.cli.plans_kept import remembered  # few tests plan

    monkeypatch.setattr("tuner.consultation.planning.plan_answer", remembered)
