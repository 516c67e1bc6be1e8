"""Every test begins and ends in English, whatever the machine asks for."""

from collections.abc import Iterator

import pytest

from tuner import language


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TUNER_LANG"):
        monkeypatch.delenv(name, raising=False)
    language.choose(None)
    yield
    language.choose(None)
