"""Numbers that pages state of recorded seconds, against what the command prints of the same file."""

import json
from statistics import median

import pytest

from computed import computed
from tests.cli.runner import ROOT, run

FILES = ("warm-passes-h100-another.json", "warm-passes-2xh100-another.json")


@pytest.mark.parametrize("file", FILES)
def test_errors_of_recorded_passes_are_those_of_the_command(file: str) -> None:
    result = run("accuracy", str(ROOT / "docs/validation/data" / file), "--output-format", "json")
    rows = json.loads(result.out)["seconds"]
    errors = [abs(row["predicted_s"] / row["measured_s"] - 1) for row in rows]
    assert len(errors) > 30
    assert float(computed(f"seconds-error {file}").split()[0]) == pytest.approx(
        100 * median(errors), abs=0.06
    )
    close = sum(error <= 0.12 for error in errors) / len(errors)
    assert float(computed(f"seconds-close {file} 12").split()[0]) == pytest.approx(100 * close, abs=0.6)
