"""Budgets: what a configuration may take, and what is said where it takes more."""

import re
from pathlib import Path

import pytest

from tests.cli.answers import answer
from tests.cli.runner import run
from tests.cli.test_commands import CONFIG, GIVEN
from tests.review.conftest import forget
from tuner.findings import Severity
from tuner.review import budget
from tuner.review.project.read import budgets_of
from tuner.timing import step_interval
from tuner.units import GIB

ADVICE = answer().advice
STEP = step_interval(ADVICE.time, ADVICE.workload.cluster)
WORST = ADVICE.estimate.worst


def severities(text: str, folder: Path, file: str = "jobs/a.yaml") -> list[Severity]:
    """What is found beside the budgets of a text."""
    path = folder / f"{abs(hash(text))}.toml"
    path.write_text(text)
    return [finding.severity for finding in budget.check(ADVICE, budgets_of(path), folder / file)]


def between(low: float, high: float) -> float:
    return (low + high) / 2


def test_the_typical_value_breaks_a_budget_and_the_upper_end_warns_of_it(tmp_path: Path) -> None:
    above, within = STEP.high_s * 1.01, between(STEP.seconds, STEP.high_s)
    assert severities(f"[[budget]]\nseconds = {above}", tmp_path) == []
    assert severities(f"[[budget]]\nseconds = {within}", tmp_path) == [Severity.ADVICE]
    assert severities(f"[[budget]]\nseconds = {STEP.seconds * 0.99}", tmp_path) == [Severity.ERROR]


def test_gpu_hours_are_those_of_all_gpus(tmp_path: Path) -> None:
    hours = STEP.seconds * ADVICE.workload.cluster.gpus / 3600
    assert severities(f"[[budget]]\ngpu-hours = {hours * 0.99}", tmp_path) == [Severity.ERROR]
    assert severities(f"[[budget]]\ngpu-hours = {STEP.high_s / STEP.seconds * hours * 1.01}", tmp_path) == []


def test_memory_is_an_amount_or_a_share_of_the_card(tmp_path: Path) -> None:
    capacity = ADVICE.estimate.capacity_bytes
    most = max(phase.interval[1] for phase in ADVICE.estimate.phases)
    assert severities(f'[[budget]]\nmemory = "{most / GIB + 0.1:.2f}GiB"', tmp_path) == []
    assert severities(f'[[budget]]\nmemory = "{100 * most / capacity + 0.1:.2f}%"', tmp_path) == []
    for share in (30, 50, 70):
        limit = capacity * share / 100
        peaks = [(phase.peak_bytes, phase.interval[1]) for phase in ADVICE.estimate.phases]
        expected = [
            Severity.ERROR if peak > limit else Severity.ADVICE for peak, high in peaks if high > limit
        ]
        assert severities(f'[[budget]]\nmemory = "{share} %"', tmp_path) == expected


def test_a_phase_has_its_own_budget(tmp_path: Path) -> None:
    name = WORST.phase.value
    all_phases = severities('[[budget]]\nmemory = "1GiB"', tmp_path)
    assert len(all_phases) == len(ADVICE.estimate.phases)
    spared = severities(f'[[budget]]\nmemory = "1GiB"\nphases.{name}.memory = "900GiB"', tmp_path)
    assert len(spared) == len(all_phases) - 1
    assert severities(f"[[budget]]\nphases.{name}.seconds = 0.001", tmp_path) == [Severity.ERROR]
    assert severities("[[budget]]\nphases.values.seconds = 0.001", tmp_path) == []  # it has no such phase


def test_a_budget_holds_for_the_files_that_it_names(tmp_path: Path) -> None:
    text = '[[budget]]\nfiles = ["jobs/*.yaml"]\nseconds = 0.1\n[[budget]]\nseconds = 0.2'
    assert len(severities(text, tmp_path)) == 2
    assert len(severities(text, tmp_path, "other/a.yaml")) == 1


def test_a_breach_is_told_with_its_interval_and_the_line_of_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_bytes(Path(CONFIG).read_bytes())
    Path("budget.toml").write_text('[[budget]]\nmemory = "10GiB"\n\nphases.update_actor.seconds = "1s"\n')
    result = run(
        "check", "a.yaml", *GIVEN, "--budget", "budget.toml", "--select", "over-budget", "-f", "concise"
    )
    assert result.code == 1
    found = result.out.splitlines()
    assert all(line.startswith("a.yaml:1:1: error CFG910 over-budget: ") for line in found)
    peak = r"update_actor peaks at [\d.]+ GiB \(up to [\d.]+ GiB\), above the budget of 10.0 GiB"
    assert re.search(peak + r" \(budget.toml:2:1\)", result.out)
    assert re.search(
        r"update_actor takes \d+ s \(\d+ to \d+\), above the budget of 1 s \(budget.toml:4:1\)", result.out
    )
    Path("tuner.toml").write_text('[[budget]]\nseconds = "1s"')
    forget()
    of_settings = run("check", "a.yaml", *GIVEN, "--select", "over-budget", "-f", "concise")
    assert [line.endswith("(tuner.toml:2:1)") for line in of_settings.out.splitlines()] == [True]
    refused = run("check", "a.yaml", *GIVEN, "--budget", "none.toml")
    assert refused.code == 2
    assert "none.toml: there is no such file" in refused.err
