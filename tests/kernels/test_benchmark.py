"""The benchmark: what it says of right, wrong, missing and failing heads, on a CPU and without any speed."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from io import StringIO
from math import nan
from pathlib import Path
from time import perf_counter

import pytest
import torch
from rich.console import Console
from torch import Tensor

from tuner.kernels import Mode
from tuner.kernels.benchmark import command, hard_logits, measure, outcome, rivals
from tuner.kernels.benchmark.__main__ import main
from tuner.kernels.benchmark.exact import exact_results
from tuner.kernels.benchmark.heads import EXACT_LIMITS, HEADS, Head, Rounding, own_head, policy_loss_head
from tuner.kernels.benchmark.outcome import BenchmarkSettings
from tuner.kernels.benchmark.problem import ProblemShape, random_problem, with_policy
from tuner.kernels.benchmark.progress import StepCounter
from tuner.kernels.benchmark.report import (
    BenchmarkReport,
    HeadResult,
    HeadSource,
    HeadStatus,
    Task,
)
from tuner.kernels.benchmark.rivals import Missing
from tuner.units import GIB

pytestmark = pytest.mark.triton

ROOT = Path(__file__).parents[2]
SHAPE = ProblemShape(tokens=5, hidden=8, vocabulary=33)
OURS = own_head(Mode.RECOMPUTE)
Wrong = Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]]


def wall_clock(run: Callable[[], object]) -> float:
    start = perf_counter()
    run()
    return 1000 * (perf_counter() - start)


def settings(*, timed: bool = False) -> BenchmarkSettings:
    return replace(BenchmarkSettings.of("cpu", 1), clock=wall_clock if timed else None)


def quiet_steps() -> StepCounter:
    return StepCounter(100, Console(file=StringIO()))


def broken(name: str, spoil: Wrong, family: HeadSource = HeadSource.OURS) -> Head:
    """A head that spoils what ours finds."""
    return replace(OURS, name=name, family=family, run=lambda problem: spoil(OURS.run(problem)))


def off(outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return outputs[0] + 0.001 * outputs[0].detach(), outputs[1]


def not_finite(outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return outputs[0].where(outputs[0] > outputs[0].min(), nan), outputs[1]


def out_of_memory(outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    raise torch.OutOfMemoryError("tried to allocate too much")


def failing(outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    raise RuntimeError("no such\n  kernel")


def measured(*heads: Head | Missing, timed: bool = False) -> dict[str, HeadResult]:
    report = measure.measure(SHAPE, heads, settings(timed=timed), quiet_steps())
    assert [head.name for head in report.heads] == [head.name for head in heads]
    return {head.name: head for head in report.heads}


@pytest.fixture
def _small_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product that shows a GPU's rate takes a CPU half a minute."""
    monkeypatch.setattr(measure, "burst", lambda device: lambda: torch.ones(64, 64) @ torch.ones(64, 64))


@pytest.fixture
def _interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")


def run(*arguments: str) -> int:
    return main(["--device", "cpu", "--shapes", str(SHAPE), "--rounds", "3", *arguments])


@pytest.mark.sampled(6)
@pytest.mark.slow
@pytest.mark.usefixtures("_interpreted")
def test_the_whole_flow_on_a_cpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rivals, "find_spec", lambda name: None)
    ordinary = {name: case for name, case in hard_logits.CASES.items() if name == "near +300"}
    monkeypatch.setattr(hard_logits, "CASES", ordinary)
    file = tmp_path / "report.json"
    named = ["recompute", "saved_logits", "policy_loss", "eager", "fused, torch", "verl Triton"]
    assert run("--heads", *named, "--format", "json", "--output", str(file)) == 0
    written = capsys.readouterr()
    assert written.out == file.read_text(encoding="utf-8")
    assert "5x8x33: recompute" in written.err
    report = BenchmarkReport.model_validate_json(written.out)
    heads = {head.name: head for head in report.shapes[0].heads}
    assert list(heads) == named
    missing = heads.pop("verl Triton")
    assert (missing.status, missing.reason) == (HeadStatus.MISSING, "not installed: verl")
    assert {head.status for head in heads.values()} == {HeadStatus.RIGHT}
    assert {head.reason for head in heads.values()} == {outcome.NO_SPEED}
    assert all(head.speed is None and head.first_call_s is None for head in report.shapes[0].heads)
    assert heads["recompute"].errors["log_probs"] < 1e-6 < heads["saved_logits"].errors["log_probs"]
    assert {case.status for case in report.adversarial} == {HeadStatus.RIGHT}
    assert len(report.adversarial) == len(heads)
    assert report.command.startswith("python -m tuner.kernels.benchmark --device cpu")


@pytest.mark.usefixtures("_small_burst")
def test_a_wrong_head_gets_no_speed() -> None:
    heads = measured(OURS, broken("off", off), broken("not finite", not_finite), timed=True)
    assert heads["recompute"].status is HeadStatus.RIGHT
    assert heads["recompute"].speed is not None and heads["recompute"].first_call_s is not None
    assert heads["recompute"].speed.both.median_ms > 0
    assert heads["recompute"].speed.over_verl_triton is None
    for name in ("off", "not finite"):
        assert heads[name].status is HeadStatus.WRONG
        assert heads[name].speed is None
    assert heads["off"].reason == "log_probs"
    assert heads["not finite"].reason.startswith("log_probs")
    assert 0.0009 < heads["off"].errors["log_probs"] < 0.0011


@pytest.mark.usefixtures("_small_burst")
def test_the_ratio_to_verls_kernel() -> None:
    heads = measured(OURS, replace(OURS, name=rivals.VERL_TRITON, family=HeadSource.RIVAL), timed=True)
    verl, ours = heads[rivals.VERL_TRITON].speed, heads["recompute"].speed
    assert verl is not None and verl.over_verl_triton is not None
    assert ours is not None and ours.over_verl_triton is not None
    assert verl.over_verl_triton.both == 1
    assert ours.over_verl_triton.both == verl.both.median_ms / ours.both.median_ms


@pytest.mark.usefixtures("_small_burst")
def test_steady_work_comes_before_every_timed_call(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr(measure, "warm_up", lambda device: lambda: events.append(f"{device} warm"))

    def clock(run: Callable[[], object]) -> float:
        events.append("timed")
        return wall_clock(run)

    timed = replace(settings(), clock=clock)
    measure.measure(SHAPE, [OURS], timed, quiet_steps())
    assert events and events == ["cpu warm", "timed"] * (len(events) // 2)


def test_the_loss_is_judged_by_its_addends() -> None:
    head = policy_loss_head()
    limits = measured(head)[head.name].limits
    problem = with_policy(random_problem(SHAPE, device="cpu", dtype=settings().dtype))
    slopes = exact_results(problem, Task.POLICY_LOSS).loss_slopes
    assert limits["loss"] == pytest.approx(sum(slope * limits[name] for name, slope in slopes.items()))
    assert limits["loss"] > EXACT_LIMITS["loss"]


def test_heads_that_do_not_fit_or_fail_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "free_bytes", lambda device: 2 * GIB)
    large = replace(OURS, name="large", bytes_per_logit=28 * GIB // (SHAPE.tokens * SHAPE.vocabulary) + 1)
    heads = measured(large, broken("oom", out_of_memory), broken("raises", failing))
    assert (heads["large"].status, heads["large"].reason) == (
        HeadStatus.SKIPPED,
        "needs 28 GiB, 2 GiB are free",
    )
    assert (heads["oom"].status, heads["oom"].reason) == (HeadStatus.SKIPPED, "out of memory")
    assert (heads["raises"].status, heads["raises"].reason) == (
        HeadStatus.FAILED,
        "RuntimeError: no such kernel",
    )


@pytest.mark.usefixtures("_interpreted")
@pytest.mark.parametrize(
    ("family", "spoil", "status"),
    [
        (HeadSource.OURS, off, 1),
        (HeadSource.OURS, failing, 1),
        (HeadSource.RIVAL, off, 0),
        (HeadSource.RIVAL, failing, 0),
    ],
    ids=["ours wrong", "ours failing", "rival wrong", "rival failing"],
)
def test_only_our_own_heads_decide_the_exit_status(
    family: HeadSource, spoil: Wrong, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "HEADS", [broken("broken", spoil, family)])
    assert run("--heads", "broken", "--no-hard-logits") == status


def test_hard_logits_find_what_ordinary_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that rounds logits and says that it does not."""
    monkeypatch.setattr(
        hard_logits, "CASES", {name: hard_logits.CASES[name] for name in ("ordinary", "near +300")}
    )
    rounding = replace(own_head(Mode.SAVED_LOGITS), name="rounding", rounding=Rounding())
    heads = [OURS, own_head(Mode.SAVED_LOGITS), rounding, broken("NaN", not_finite)]
    reports = hard_logits.measure_hard_logits([SHAPE], heads, settings(), quiet_steps())
    status = {(report.case, report.head): report.status for report in reports}
    for case in ("ordinary", "near +300"):
        assert status[case, "recompute"] is status[case, "saved_logits"] is HeadStatus.RIGHT
        assert status[case, "NaN"] is HeadStatus.WRONG
    assert status["near +300", "rounding"] is HeadStatus.WRONG
    reasons = {report.reason for report in reports if report.head == "NaN"}
    assert reasons == {"not finite: log_probs"}


def test_no_gpu_is_one_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([]) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert printed.err.count("\n") == 1 and "no CUDA device" in printed.err and "--device cpu" in printed.err


@pytest.mark.usefixtures("_interpreted")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shapes", "5x8"], "a shape is TxHxV"),
        (["--shapes", "0x8x3"], "at least 1"),
        (["--heads", "eagre"], "there is no eagre; there are: recompute;"),
    ],
)
def test_wrong_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--device", "cpu", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("_interpreted")
def test_no_rivals_leaves_them_out() -> None:
    everything = command.chosen_heads(None, "cpu", rivals=True)
    assert {head.name for head in everything} >= {head.name for head in HEADS} | set(rivals.RIVAL_NAMES)
    assert not {head.name for head in command.chosen_heads(None, "cpu", rivals=False)} & set(
        rivals.RIVAL_NAMES
    )


def test_heads_without_speed_are_not_in_the_pages_speed_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    pytest.importorskip("docutils")  # of the documentation
    pages = import_module("head_benchmark")
    report = measure.measure(
        SHAPE, [OURS, Missing(name="gone", task=Task.EACH, reason="not installed")], settings(), quiet_steps()
    )
    assert pages.speed_rows(report) == []
    assert [row[0] for row in pages.accuracy_rows(report)] == ["``recompute``"]
