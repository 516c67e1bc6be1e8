"""What the benchmark is made of: its truth, its limits, its rounds, and how it finds rivals."""

from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from math import sqrt
from pathlib import Path
from time import perf_counter

import pytest
import torch
from rich.console import Console
from torch import Tensor

from tuner.kernels import Mode
from tuner.kernels.benchmark import hard_logits, rivals
from tuner.kernels.benchmark.adversarial import adversarial_problem, error_limits, product_errors
from tuner.kernels.benchmark.exact import exact_results, objective
from tuner.kernels.benchmark.heads import EXACT_LIMITS, Head, Rounding, own_head
from tuner.kernels.benchmark.outcome import BenchmarkSettings
from tuner.kernels.benchmark.problem import Problem, ProblemShape, random_problem, with_policy
from tuner.kernels.benchmark.progress import StepCounter
from tuner.kernels.benchmark.report import HeadSource, HeadStatus, Task
from tuner.kernels.benchmark.rivals import Missing, import_below
from tuner.kernels.benchmark.timing import interleaved

pytestmark = pytest.mark.triton

SHAPE = ProblemShape(tokens=5, hidden=8, vocabulary=33)


def wall_clock(run: Callable[[], object]) -> float:
    start = perf_counter()
    run()
    return 1000 * (perf_counter() - start)


@pytest.mark.parametrize("task", Task, ids=lambda task: task.name)
def test_exact_results_are_those_of_autograd(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.kernels.benchmark.problem.CHUNK", 4)
    problem = with_policy(random_problem(SHAPE, device="cpu", dtype=torch.float32))
    hidden, weight = (matrix.detach().double().requires_grad_() for matrix in problem.inputs)
    log_p = (hidden @ weight.T).log_softmax(1)
    log_probs = log_p.gather(1, problem.labels_T[:, None]).squeeze(1)
    entropy = -(log_p.exp() * log_p).sum(1)
    value = objective(task, problem, log_probs, entropy)
    d_hidden, d_weight = torch.autograd.grad(value, (hidden, weight))
    results = exact_results(problem, task)
    torch.testing.assert_close(results.d_hidden.double(), d_hidden, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(results.d_weight.double(), d_weight, rtol=1e-6, atol=1e-7)
    named = {"log_probs": log_probs, "entropy": entropy, "loss": value}
    for name in task.outputs:
        torch.testing.assert_close(results.present()[name], named[name].detach(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("count", [2, 16, 128])
def test_sums_in_16_bits_are_as_far_off_as_the_limit_says(count: int) -> None:
    generator = torch.Generator().manual_seed(0)
    parts = torch.randn(count, 20_000, generator=generator, dtype=torch.float64)
    exact = parts.sum(0)
    once = float((exact.bfloat16().double() - exact).norm() / exact.norm())
    total = torch.zeros(20_000, dtype=torch.bfloat16)
    for part in parts:
        total = (total.double() + part).bfloat16()
    error = float((total.double() - exact).norm() / exact.norm())
    factor = Rounding(sums={"d_weight": lambda shape: count}).of_sums("d_weight", SHAPE)
    assert factor == sqrt((count + 1) / 2)
    assert 0.8 < error / (factor * once) < 1.1


def test_logits_in_a_finer_dtype_are_as_far_off_as_the_limit_says() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2000, 500, generator=generator, dtype=torch.float64)

    def error(dtype: torch.dtype) -> float:
        exact, rounded = (values.log_softmax(1) for values in (logits, logits.to(dtype).double()))
        return float((rounded - exact).norm() / exact.norm())

    unit = torch.finfo(torch.bfloat16).eps / 2
    rounding = Rounding(logits=True, logits_dtype=torch.float16)
    limit = rounding.limits(SHAPE, {"log_probs": error(torch.bfloat16)}, unit=unit, slack=1.0)["log_probs"]
    assert limit == pytest.approx(1.01 * error(torch.bfloat16) / 8)
    assert 0.98 < error(torch.float16) / limit < 1.0


@pytest.mark.parametrize("name", ["log_probs", "entropy"])
def test_a_loss_moves_by_its_slope_where_the_error_is_along_it(name: str) -> None:
    problem = with_policy(random_problem(SHAPE, device="cpu", dtype=torch.float64))
    exact = exact_results(problem, Task.POLICY_LOSS)
    outputs = {"log_probs": exact.log_probs, "entropy": exact.entropy}
    leaves = [value.clone().requires_grad_() for value in outputs.values() if value is not None]
    value = objective(Task.POLICY_LOSS, problem, *leaves)
    value.backward()
    moved = dict(zip(outputs, leaves, strict=True))[name]
    assert moved.grad is not None
    error = 1e-6 * moved.detach().norm() * moved.grad / moved.grad.norm()
    with torch.no_grad():
        moved += error
        change = objective(Task.POLICY_LOSS, problem, *leaves) / value - 1
    assert abs(float(change)) == pytest.approx(1e-6 * exact.loss_slopes[name], rel=1e-3)


def test_a_loss_may_be_as_far_off_as_its_addends() -> None:
    rounded = {"log_probs": 4e-4, "entropy": 2e-4, "loss": 1e-9}

    def limits(slopes: dict[str, float]) -> dict[str, float]:
        rounding = Rounding(logits=True)
        return rounding.limits(SHAPE, rounded, unit=1e-3, slack=1.0, loss_slopes=slopes)

    largest = limits({"log_probs": 5.0, "entropy": 0.5})
    assert largest["loss"] == pytest.approx(5.0 * largest["log_probs"] + 0.5 * largest["entropy"])
    assert largest["log_probs"] == pytest.approx(1.01 * 4e-4)
    # Never less than what a loss in float32 is given.
    assert limits({"log_probs": 1e-4, "entropy": 1e-4})["loss"] == EXACT_LIMITS["loss"] == limits({})["loss"]


@pytest.mark.parametrize("output", [0, 1], ids=["log_probs", "entropy"])
@pytest.mark.parametrize(
    ("family", "share", "status"),
    [
        (HeadSource.OURS, 0.9, HeadStatus.RIGHT),
        (HeadSource.OURS, 1.1, HeadStatus.WRONG),
        (HeadSource.RIVAL, 1.1, HeadStatus.RIGHT),
        (HeadSource.RIVAL, 1.4, HeadStatus.WRONG),
    ],
)
def test_hard_logits_allow_what_float32_logits_bring(
    output: int, family: HeadSource, share: float, status: HeadStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hard_logits, "CASES", ["near +300"])
    settings = BenchmarkSettings.of("cpu", 1)
    problem = adversarial_problem("near +300", SHAPE, device="cpu", dtype=settings.dtype)
    exact = exact_results(problem)
    name = ("log_probs", "entropy")[output]
    limit = error_limits(product_errors(problem, exact), SHAPE.vocabulary)[name]
    ours = own_head(Mode.RECOMPUTE)

    def off(case: Problem) -> tuple[Tensor, ...]:
        outputs = list(ours.run(case))
        wanted = exact.present()[name] + share * limit
        outputs[output] = outputs[output] + (wanted - outputs[output].detach())
        return tuple(outputs)

    head = replace(ours, family=family, run=off)
    (report,) = hard_logits.measure_hard_logits(
        [SHAPE], [head], settings, StepCounter(9, Console(file=StringIO()))
    )
    assert (report.status, report.reason) == (status, "" if status is HeadStatus.RIGHT else f"off: {name}")


def test_slow_calls_take_part_in_fewer_rounds_and_the_order_changes() -> None:
    calls: list[str] = []
    milliseconds = {"fast": 1.0, "slow": 260.0, "slowest": 2000.0, "other": 1.0}

    def clock(call: Callable[[], object]) -> float:
        name = call()
        assert isinstance(name, str)
        calls.append(name)
        return milliseconds[name]

    times = interleaved({name: lambda name=name: name for name in milliseconds}, 7, clock=clock)
    assert {name: timed.rounds for name, timed in times.items()} == {
        "fast": 7,
        "slow": 3,
        "slowest": 3,
        "other": 7,
    }
    assert times["slow"].median_ms == 260
    # The first round, in order, tells who is slow and does not count.
    assert calls[:4] == list(milliseconds)
    order = [name for name in calls[4:] if name in ("fast", "other")]
    assert {tuple(order[start : start + 2]) for start in range(0, 14, 2)} == {
        ("fast", "other"),
        ("other", "fast"),
    }


def test_what_comes_before_a_call_is_run_each_time_and_not_timed() -> None:
    done: list[str] = []

    def clock(call: Callable[[], object]) -> float:
        first = len(done)
        call()
        return float(len(done) - first)

    runs = {name: lambda name=name: done.append(name) for name in ("one", "other")}
    times = interleaved(runs, 4, clock=clock, before=lambda: done.append("before"))
    assert done[::2] == ["before"] * 10  # two calls in the round that does not count and in each of four
    assert sorted(done[1::2]) == ["one"] * 5 + ["other"] * 5
    assert {timed.most_ms for timed in times.values()} == {1.0}


def test_a_module_below_a_package_that_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tuner_test_rival" / "parts" / "kernel"
    folder.mkdir(parents=True)
    for package in (folder.parent.parent, folder.parent):
        (package / "__init__.py").write_text("import no_such_dependency\n", encoding="utf-8")
    (folder / "__init__.py").write_text("", encoding="utf-8")
    (folder / "product.py").write_text(
        "from tuner_test_rival.parts.device import NAME\n"
        "def lazy():\n    from . import other\n    return NAME + other.END\n",
        encoding="utf-8",
    )
    (folder / "other.py").write_text("END = '!'\n", encoding="utf-8")
    (folder.parent / "device.py").write_text("NAME = 'gpu'\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2):  # the second time its stand-ins are there
        module = import_below("tuner_test_rival", "tuner_test_rival.parts.kernel.product")
        assert module.lazy() == "gpu!"
    with pytest.raises(rivals.RivalMissingError, match="not installed: no_such_package"):
        import_below("no_such_package", "no_such_package.kernel.product")


def test_a_rival_whose_import_fails_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(device: str) -> Head:
        raise ImportError("cannot import name 'x'")

    monkeypatch.setitem(rivals._RIVALS, "Liger Triton", (Task.MEAN, load))
    (rival,) = rivals.find_rivals("cuda", ("Liger Triton",))
    assert isinstance(rival, Missing)
    assert "cannot import name 'x'" in rival.reason


def test_policies_are_near_and_no_token_is_clipped() -> None:
    problem = with_policy(random_problem(SHAPE, device="cpu", dtype=torch.float32))
    assert isinstance(problem, Problem) and problem.policy is not None
    exact = exact_results(problem).log_probs
    assert exact is not None
    ratio = (exact - problem.policy.old_log_probs_T).exp()
    assert 0.9 < float(ratio.min()) < float(ratio.max()) < 1.11
    assert float(problem.policy.token_weights_T.sum()) == pytest.approx(1)


def test_a_head_that_fails_while_it_is_timed_ends_no_other() -> None:
    calls = {"fails late": 0}

    def fails_late() -> None:
        calls["fails late"] += 1
        if calls["fails late"] == 3:
            raise torch.OutOfMemoryError("fragmented")

    told: list[str] = []
    runs: dict[str, Callable[[], object]] = {"fails late": fails_late, "sound": lambda: None}
    times = interleaved(runs, 5, clock=wall_clock, failed=lambda name, error: told.append(f"{name}: {error}"))
    assert list(times) == ["sound"] and times["sound"].rounds == 5
    assert told == ["fails late: fragmented"] and calls["fails late"] == 3
    with pytest.raises(ZeroDivisionError):
        interleaved({"fails": lambda: 1 // 0}, 1, clock=wall_clock)
