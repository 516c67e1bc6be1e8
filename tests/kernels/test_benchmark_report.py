"""The benchmark's report: as JSON, in a terminal, on the page; and the page's example."""

import json
import runpy
from collections.abc import Iterable
from importlib import import_module
from io import StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor

from tests.kernels.reports import full_report
from tuner.kernels.benchmark.report import (
    BenchmarkReport,
    HeadSource,
)
from tuner.kernels.benchmark.shapes import DEFAULT_SHAPES
from tuner.kernels.benchmark.tables import WIDTH, write_tables

pytestmark = pytest.mark.triton

ROOT = Path(__file__).parents[2]


def test_tables_cut_no_word_off_at_80_columns() -> None:
    report = full_report()
    stream = StringIO()
    write_tables(report, Console(file=stream, width=WIDTH))
    lines = stream.getvalue().splitlines()
    assert max(len(line.rstrip()) for line in lines) <= WIDTH
    text = stream.getvalue()
    assert "…" not in text
    words = {word for head in report.shapes[0].heads for word in head.name.split()}
    assert {word for word in words if text.count(word) < 2} == set()  # in both tables
    for number in ("1234.50", "65.00", "12.34x", "99%", "1.2e-12", "nan", "policy loss:"):
        assert number in text
    assert "standard" in text and "near -150" in text


def test_a_report_reads_back_as_it_was_written() -> None:
    report = full_report()
    text = report.model_dump_json()
    assert "NaN" in text and json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert BenchmarkReport.model_validate_json(text).model_dump_json() == text
    with pytest.raises(ValueError, match="layout"):
        BenchmarkReport.model_validate_json(text.replace("benchmark/2", "benchmark/1"))


def test_recorded_reports_have_this_layout() -> None:
    for path in (ROOT / "docs" / "validation" / "data").glob("output-head-*.json"):
        report = BenchmarkReport.model_validate_json(path.read_text(encoding="utf-8"))
        assert report.ours_are_right, path.name
        assert all(
            head.speed for shape in report.shapes for head in shape.heads if head.family is HeadSource.OURS
        )


def recorded(*files: str) -> dict[tuple[int, int], dict[str, Any]]:
    """Heads by name, of each shape by tokens and hidden size."""
    folder = ROOT / "docs" / "validation" / "data"
    reports = [
        BenchmarkReport.model_validate_json((folder / file).read_text(encoding="utf-8")) for file in files
    ]
    return {
        (shape.tokens, shape.hidden): {head.name: head for head in shape.heads}
        for report in reports
        for shape in report.shapes
    }


@pytest.mark.parametrize(
    ("file", "both", "forward", "over", "saved", "policy"),
    [
        ("output-head-h100.json", [0.92, 1.00], [0.96, 1.05], [0.35, 0.67], [0.31, 0.53], [0.32, 0.54]),
        ("output-head-h200-more.json", [0.97, 0.99], [0.98, 1.06], [0.37, 0.68], [0.33, 0.53], [0.34, 0.54]),
    ],
)
def test_what_was_measured_at_all_sizes_is_as_fast_as_the_page_says(
    file: str,
    both: list[float],
    forward: list[float],
    over: list[float],
    saved: list[float],
    policy: list[float],
) -> None:
    shapes = recorded(file)
    assert len(shapes) == len(DEFAULT_SHAPES)
    ours = [heads["recompute"].speed for heads in shapes.values()]
    shares = [speed.share_of_products for speed in ours]
    assert rounded(share.both for share in shares) == both
    assert rounded(share.forward for share in shares) == forward
    assert min(share.both for share in shares) >= 0.92
    assert min(share.forward for share in shares) >= 0.95
    assert rounded(1 / speed.over_verl_triton.both for speed in ours) == over
    for name, expected in (("saved_logits", saved), ("policy_loss", policy)):
        ratios = [heads[name].speed.over_verl_triton.both for heads in shapes.values()]
        assert rounded(1 / ratio for ratio in ratios) == expected
    verls = [heads["verl Triton"].speed.share_of_products.both for heads in shapes.values()]
    assert max(verls) < 0.67
    page = (ROOT / "docs" / "kernels.rst").read_text(encoding="utf-8")
    for shape, heads in shapes.items():
        names = ("policy_loss", "Liger Triton", "recompute")
        own, mean, default = (heads[name].speed.both.median_ms for name in names)
        assert own < default
        if shape == (16384, 5120):
            assert f"{own:.1f} to {mean:.1f}" in page
            assert own < mean and overlap(heads["policy_loss"], heads["Liger Triton"])
        else:
            assert own < 0.905 * mean


def overlap(one: Any, other: Any) -> bool:
    """Whether rounds of one head lie between those of another."""
    first, second = one.speed.both, other.speed.both
    return bool(first.least_ms <= second.most_ms and second.least_ms <= first.most_ms)


def test_ligers_native_kernel_is_behind_where_it_was_timed() -> None:
    heads = recorded("output-head-h100-more.json")[16384, 5120]
    times = [heads[name].speed.both.median_ms for name in ("Liger native", "recompute")]
    assert [f"{milliseconds:.1f}" for milliseconds in times] == ["179.8", "154.7"]


def rounded(values: Iterable[float]) -> list[float]:
    """The least and the most, as a page has them."""
    seen = list(values)
    return [round(min(seen), 2), round(max(seen), 2)]


def test_what_the_page_says_of_other_kernels_is_what_was_measured() -> None:
    for (tokens, hidden), heads in recorded("output-head-h200.json").items():
        times = {name: head.speed.both.median_ms for name, head in heads.items() if head.speed}
        memory = {name: head.peak_bytes.both for name, head in heads.items() if head.speed}
        assert times["Liger SM90"] > times["recompute"]
        if tokens == 16384:
            assert memory["Liger SM90"] < memory["recompute"] < 1.1 * memory["Liger SM90"]
            assert (times["Liger Triton"] < times["recompute"]) is (hidden >= 2048)
        assert times["policy_loss"] < min(times["recompute"], times["Liger Triton"])


def test_what_was_measured_is_as_fast_and_lean_as_it_is_meant_to_be() -> None:
    """The recorded run on an H200 keeps the least ratio to verl's kernel and the most GiB of both passes."""
    wanted = {(16384, 3584): 1.6, (16384, 2048): 1.9, (16384, 896): 2.6, (4096, 3584): 1.5}
    shapes = recorded("output-head-h200.json")
    assert set(shapes) == set(wanted)
    for shape, heads in shapes.items():
        ours, portable = heads["recompute"].speed, heads["recompute (portable)"].speed
        assert ours.over_verl_triton.both >= wanted[shape]
        assert portable.over_verl_triton.both >= 1 and portable.over_verl_triton.forward >= 1
        assert ours.few_gradients <= 0.5
        assert heads["saved_logits"].speed.both.median_ms <= heads["compiled"].speed.both.median_ms
    largest = shapes[16384, 3584]
    assert largest["recompute"].speed.over_verl_triton.forward >= 2
    assert largest["recompute"].speed.share_of_products.forward >= 0.95
    assert largest["recompute"].speed.share_of_products.both >= 0.85
    assert largest["recompute"].peak_bytes.both <= 1.6 * 2**30
    assert largest["saved_logits"].peak_bytes.both <= largest["compiled"].peak_bytes.both / 2


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The extension that shows reports."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    pytest.importorskip("docutils")  # of the documentation
    return import_module("head_benchmark")


def test_the_page_shows_what_a_report_says(pages: ModuleType, tmp_path: Path) -> None:
    text = full_report().model_dump_json()
    (tmp_path / "output-head-h200.json").write_text(text, encoding="utf-8")
    (report,) = pages.read_reports(tmp_path)
    (shape,) = report.shapes
    speed, accuracy = pages.speed_rows(shape), pages.accuracy_rows(shape)
    assert [row[0] for row in speed] == [row[0] for row in accuracy] == [f"``{h.name}``" for h in shape.heads]
    assert speed[0][1:6] == ["log-probability and entropy", "1234.50", "1234.50", "65.00", "65.00"]
    assert speed[0][6] == "99%" and speed[0][7].startswith("12.34")
    assert accuracy[0][1:] == ["1.2e-12", "NaN", "1.0e-03", "1.0e-03", "right", "1358.0"]
    (hard,) = pages.hard_rows(report.adversarial)
    assert hard[1:] == ["1.0e+00", "NaN", "1.0e+00", "1.0e+00", "``standard deviation 100``, ``near -150``"]
    assert {len(row) for row in speed} == {len(pages.SPEED)}
    assert {len(row) for row in accuracy} == {len(pages.ACCURACY)}
    assert len(hard) == len(pages.HARD)


class Model(torch.nn.Module):
    """As a causal language model of transformers looks from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(40, 8)
        self.lm_head = torch.nn.Linear(8, 40, bias=False)

    def model(self, input_ids: Tensor) -> SimpleNamespace:
        return SimpleNamespace(last_hidden_state=self.embedding(input_ids))


def test_the_example_of_the_page() -> None:
    example = runpy.run_path(str(ROOT / "docs" / "examples" / "output_head.py"))
    torch.manual_seed(0)
    model, input_ids = Model(), torch.randint(40, (2, 6))
    log_p = (model.lm_head(model.embedding(input_ids))[:, :-1] / 0.8).log_softmax(-1)
    expected = log_p.gather(-1, input_ids[:, 1:, None]).squeeze(-1)
    entropy_expected = -(log_p.exp() * log_p).sum(-1)
    log_probs, entropy = example["log_probs_and_entropy"](model, input_ids, 0.8)
    torch.testing.assert_close(log_probs, expected)
    torch.testing.assert_close(entropy, entropy_expected)
    mask = torch.tensor([[0, 0, 1, 1, 1, 0], [0, 1, 1, 1, 1, 1]], dtype=torch.float32)
    advantages = torch.randn(2, 5)
    batch = {
        "input_ids": input_ids,
        "response_mask": mask,
        "old_log_probs": expected.detach() + 0.05,
        "advantages": advantages,
    }
    loss = example["policy_loss"](model, batch, 0.8)
    token_losses = -advantages * (expected - batch["old_log_probs"]).exp() - 0.001 * entropy_expected
    loss_expected = (token_losses * mask[:, 1:]).sum() / mask[:, 1:].sum()
    torch.testing.assert_close(loss, loss_expected)
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    for gradient, exact in zip(gradients, torch.autograd.grad(loss_expected, parameters), strict=True):
        torch.testing.assert_close(gradient, exact, rtol=1e-4, atol=1e-6)
