"""Numbers that pages state of recorded seconds, against what the command prints of the same file."""

import json
from statistics import median

import pytest

from computed import computed
from tests.cli.runner import ROOT, run

FILES = tuple(
    f"warm-passes-{run}.json" for run in ("h100-another", "2xh100-another", "h200-another", "2xh200")
)
THREE_MACHINES = (
    "warm-passes-2xh100.json",
    "warm-passes-2xh100-host.json",
    "warm-passes-2xh100-another.json",
)
PASS = (
    "model",
    "strategy",
    "tokens",
    "sequence_length",
    "pass",
    "gradient_checkpointing",
    "layers",
    "ulysses",
    "forward_prefetch",
)


@pytest.mark.parametrize("file", FILES)
def test_errors_of_recorded_passes_are_those_of_the_command(file: str) -> None:
    result = run("accuracy", str(ROOT / "docs/validation/data" / file), "--output-format", "json")
    rows = json.loads(result.out)["seconds"]
    errors = [abs(row["predicted_s"] / row["measured_s"] - 1) for row in rows]
    assert len(errors) >= 29
    assert float(computed(f"seconds-error {file}").split()[0]) == pytest.approx(
        100 * median(errors), abs=0.06
    )
    close = sum(error <= 0.12 for error in errors) / len(errors)
    assert float(computed(f"seconds-close {file} 12").split()[0]) == pytest.approx(100 * close, abs=0.6)


def test_no_prediction_is_near_the_seconds_of_all_machines() -> None:
    """How many seconds of the same passes the best number for each of them would be within 12 % of."""
    passes: dict[tuple[object, ...], list[float]] = {}
    for file in THREE_MACHINES:
        for case in json.loads((ROOT / "docs/validation/data" / file).read_text(encoding="utf-8"))["cases"]:
            passes.setdefault(tuple(case.get(name) for name in PASS), []).append(case["seconds"])
    repeated = [seconds for seconds in passes.values() if len(seconds) > 1]
    near = sum(
        max(
            sum(abs(guess / measured - 1) <= 0.12 + 1e-9 for measured in seconds)
            for second in seconds
            for guess in (0.88 * second, second, 1.12 * second)
        )
        for seconds in repeated
    )
    assert (len(repeated), near, sum(map(len, repeated))) == (8, 16, 19)
    page = (ROOT / "docs/validation/index.rst").read_text(encoding="utf-8")
    assert "Eight of the passes" in page and "more than 16 of these 19 seconds" in page
