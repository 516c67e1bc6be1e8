"""Peaks of NeMo-RL's passes under Automodel, as they were measured, against what the model says of them."""

import json
from pathlib import Path
from statistics import median

from tests.measure.automodel.predicted import predicted_bytes

FILE = Path(__file__).parents[2] / "docs" / "validation" / "data" / "automodel-passes-h200.json"


def test_passes_on_one_gpu_are_predicted() -> None:
    measured = json.loads(FILE.read_text(encoding="utf-8"))["passes"]
    errors = [abs(predicted_bytes(one) / one["peak_bytes"] - 1) for one in measured]
    assert len(errors) == 12
    assert median(errors) <= 0.015
    assert max(errors) <= 0.05
