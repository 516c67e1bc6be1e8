"""The passes over images that a GPU of 80 GB is to record are of real models and have room on it."""

from pathlib import Path

import pytest

from tuner.units import GIB

pytest.importorskip("transformers")
ROOM = 75 * GIB


def test_every_engine_has_passes_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1]))
    from measure.seeing.__main__ import planned_of
    from measure.seeing.plan import engines

    plans = list(engines())
    assert len({plan.name for plan in plans}) == len(plans)
    towers = set()
    for plan in plans:
        largest = max(plan.cases, key=lambda case: (not case.gradient_checkpointing, case.tokens))
        planned = planned_of(largest)
        assert planned.settings.images is not None
        assert planned.predicted.peak_bytes < ROOM
        towers.add(planned.model.tower)
    assert len(towers) >= 3
