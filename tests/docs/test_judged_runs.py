"""What a page says of runs that were chosen before they were predicted, against what the command prints."""

import json
import re
from functools import cache
from html import unescape
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.cli.runner import ROOT, run
from tests.docs.small_site import build
from tests.memory.measured import RECORDED, STEPS_OF_RUNS

JUDGED = RECORDED / "judged-public-steps.jsonl"
LEAST_RUNS = 10
PAGE = "Runs\n====\n\n.. runs-accuracy:: judged\n"


@cache
def rows() -> tuple[dict[str, Any], ...]:
    """Each timed phase as the command prints it."""
    result = run("accuracy", str(JUDGED), "--output-format", "json")
    assert result.code == 0
    return tuple(json.loads(result.out)["seconds"])


def ratios(phase: str, *names: str) -> list[float]:
    """Predicted over measured seconds of a phase in the runs whose names have these words."""
    of_phase = [row for row in rows() if row["phase"] == phase]
    if names:
        of_phase = [row for row in of_phase if all(name in row["case"] for name in names)]
    return [row["predicted_s"] / row["measured_s"] for row in of_phase]


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _owner(record: dict[str, Any]) -> str:
    """The repository, or the public file, that a record comes from."""
    start = re.match(r"public index file \d+|[^/ ]+/[^/ ]+|[^ ]+", record["source"])
    assert start is not None
    return start[0]


def test_no_source_is_one_that_was_recorded_before() -> None:
    judged = records(JUDGED)
    assert len(judged) == len({record["id"] for record in judged}) >= LEAST_RUNS
    before = (*records(STEPS_OF_RUNS), *records(ROOT / "tests/data/public-runs.jsonl"))
    owners = {_owner(record) for record in judged}
    assert owners.isdisjoint(map(_owner, before))
    assert {row["case"] for row in rows()} == {record["id"] for record in judged}


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """The rows of both tables, cell by cell."""
    folder = tmp_path_factory.mktemp("site")
    built = build(folder, {"index.rst": PAGE}, extensions=("folded", "seconds_accuracy"))
    assert not built.warnings
    texts = re.findall(r"<tr.*?</tr>", built.page("index"), flags=re.DOTALL)
    return [
        [
            unescape(re.sub(r"<.*?>", "", cell)).strip()
            for cell in re.findall(r"<td>.*?</td>", text, re.DOTALL)
        ]
        for text in texts
    ]


def test_each_phase_has_a_row_over_all_cards(cells: list[list[str]]) -> None:
    for phase in {row["phase"] for row in rows()}:
        (shown,) = (row for row in cells if row and row[0] == phase)
        of_phase = [row for row in rows() if row["phase"] == phase]
        values = ratios(phase)
        assert shown[1:3] == [str(len(of_phase)), f"{median(values):.2f}"]
        inside = sum(row["low_s"] <= row["measured_s"] <= row["high_s"] for row in of_phase)
        assert shown[-2] == f"{inside / len(of_phase):.0%}"
        assert shown[-1] == f"{median(row['high_s'] / row['low_s'] for row in of_phase):.1f}"
        assert shown[4] == f"{median(abs(ratio - 1) for ratio in values):.0%}"


def test_each_run_has_a_row_with_its_step_and_generation(cells: list[list[str]]) -> None:
    for record in records(JUDGED):
        (shown,) = (row for row in cells if row and row[0] == record["id"])
        for cell, phase in zip(shown[-2:], ("step", "rollout"), strict=True):
            (row,) = (row for row in rows() if (row["case"], row["phase"]) == (record["id"], phase))
            ends = (row[end] / row["measured_s"] for end in ("predicted_s", "low_s", "high_s"))
            assert cell == "{:.2f} ({:.2f}–{:.2f})".format(*ends)


def test_runs_are_as_the_page_says() -> None:
    """Each sentence behind the tables, in the order in which they stand."""
    assert all(0.75 < ratio < 1.25 for ratio in ratios("old_log_prob", "a100"))
    for phase in ("old_log_prob", "update_actor"):
        ((flash,), (sdpa,)) = (ratios(phase, "a800", name) for name in ("flash", "sdpa"))
        assert 0.8 < flash < 1.2 and 0.8 < sdpa < 1.2
    assert max(ratios("update_actor", "h800")) < 0.3
    assert max(ratios("update_weights")) < 1
    (generation,) = (row for row in rows() if row["phase"] == "rollout" and "2xa100" in row["case"])
    assert generation["measured_s"] == pytest.approx(1.04 * generation["high_s"], rel=0.005)
