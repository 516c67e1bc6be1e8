"""The output head against float64: every mode, dtype and path at sizes that reach every branch."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.kernels.exact import DEVICE, IGNORED, Case, error, exact_d_logits, exact_outputs, random_case
from tuner.kernels import Mode, linear_cross_entropy, ops, slices, tiles
from tuner.kernels.checks import Look
from tuner.kernels.head_statistics import Parts
from tuner.kernels.measured_tiles import choose_plan
from tuner.kernels.rows import Rows
from tuner.kernels.tiles import Path, TileWork

pytestmark = [pytest.mark.sampled(6), pytest.mark.usefixtures("poisoned")]

TRITON_PATHS = [
    pytest.param(Path.PORTABLE, id="portable", marks=pytest.mark.triton),
    pytest.param(Path.HOPPER, id="hopper", marks=pytest.mark.gpu),
]
PATHS = [*TRITON_PATHS, pytest.param(Path.REFERENCE, id="reference")]
# Rows, hidden size, vocabulary: one entry; less than a tile; tiles exactly; odd everywhere; one row of many
# splits. Hidden sizes that are no multiple of 8 are not for the copy engine.
SIZES = [(1, 8, 1), (5, 8, 33), (32, 32, 64), (63, 72, 203), (1, 24, 1000)]
ODD_SIZES = [(1, 1, 1), (3, 1, 2), (17, 17, 65), (35, 9, 257)]
# Relative norm of a gradient's error. float32: a logit of 10 is off by 1e-6, a probability by as much of it.
# Else: its rounding and that of the logits' gradient; the interpreter cuts bfloat16 off, which doubles it.
GRADIENT_LIMITS = {torch.float32: 3e-6, torch.float16: 5e-4, torch.bfloat16: 5e-3}
OUTPUT_LIMIT = 1e-6


def run(case: Case, *, mode: Mode = Mode.RECOMPUTE, width: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Both results and both gradients."""
    outputs = linear_cross_entropy(
        case.hidden, case.weight, case.labels, case.temperature, mode=mode, slice_width=width
    )
    upstream = (case.d_log_probs, case.d_entropy)
    return *(value.detach() for value in outputs), *torch.autograd.grad(
        outputs, (case.hidden, case.weight), upstream
    )


def assert_exact(case: Case, results: tuple[Tensor, Tensor, Tensor, Tensor]) -> None:
    hidden, weight = case.hidden.detach().double(), case.weight.detach().double()
    logits = hidden @ weight.T
    log_probs, entropy = exact_outputs(logits, case.labels, case.temperature)
    d_logits = exact_d_logits(logits, case)
    limit = GRADIENT_LIMITS[case.hidden.dtype]
    assert results[0].dtype == results[1].dtype == torch.float32
    assert results[2].dtype == results[3].dtype == case.hidden.dtype
    assert error(results[0], log_probs) <= OUTPUT_LIMIT
    assert error(results[1], entropy) <= OUTPUT_LIMIT
    assert error(results[2], d_logits @ weight) <= limit
    assert error(results[3], d_logits.T @ hidden) <= limit
    ignored = case.labels == IGNORED
    assert not results[0][ignored].any() and not results[1][ignored].any() and not results[2][ignored].any()
    assert not results[2][(case.d_log_probs == 0) & (case.d_entropy == 0)].any()


@pytest.mark.sampled(16)
@pytest.mark.parametrize("dtype", GRADIENT_LIMITS, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("path", PATHS)
def test_recomputed(path: Path, sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    if path is Path.HOPPER and dtype == torch.float32:
        pytest.skip("the Hopper path has no float32: its tiles are larger than shared memory")
    case = random_case(*sizes, dtype)
    with tiles.only(path):
        assert_exact(case, run(case))


@pytest.mark.parametrize("sizes", ODD_SIZES, ids=str)
@pytest.mark.parametrize("path", [PATHS[0], PATHS[2]])
def test_recomputed_with_rows_that_are_no_multiple_of_16_bytes(
    path: Path, sizes: tuple[int, int, int]
) -> None:
    case = random_case(*sizes, torch.float16)
    with tiles.only(path):
        assert_exact(case, run(case))


@pytest.mark.sampled(16)
@pytest.mark.parametrize("width", [7, 64, 69, 999])
@pytest.mark.parametrize("mode", Mode, ids=str)
@pytest.mark.parametrize("path", PATHS)
def test_any_slice_width_gives_the_same_gradients(path: Path, mode: Mode, width: int) -> None:
    case = random_case(21, 16, 70, torch.float32 if DEVICE == "cpu" else torch.float16)
    with tiles.only(path):
        whole, sliced = run(case, mode=mode), run(case, mode=mode, width=width)
    assert all(error(left, right.double()) <= 1e-3 for left, right in zip(sliced, whole, strict=True))
    assert torch.equal(sliced[0], whole[0])


@pytest.mark.sampled(16)
@pytest.mark.parametrize("sizes", [(21, 40, 1100), (45, 24, 700), (200, 320, 3000)], ids=str)
@pytest.mark.parametrize("mode", Mode, ids=str)
@pytest.mark.parametrize("path", PATHS)
def test_slices_in_the_unwritten_gradient_of_the_weight(
    path: Path, mode: Mode, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, hidden, vocabulary = sizes
    if DEVICE == "cpu" and rows == 200 and path is not Path.REFERENCE:
        pytest.skip("slow in the interpreter, whose tiles are small enough for the other sizes")
    case = random_case(rows, hidden, vocabulary, torch.float16)
    with tiles.only(path):
        whole = run(case, mode=mode, width=vocabulary)
        monkeypatch.setattr(slices, "SLICE_BYTES", 1)
        tile = choose_plan(TileWork.GRADIENT, case.hidden, case.weight).tile
        parts = list(slices.cut(tile, case.hidden, vocabulary, weight_wanted=True))
        sliced = run(case, mode=mode)
    assert any(part.in_weight for part in parts) or (DEVICE != "cpu" and rows < 200)
    assert all(error(left, right.double()) <= 1e-3 for left, right in zip(sliced, whole, strict=True))
    assert torch.equal(sliced[0], whole[0])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", GRADIENT_LIMITS, ids=str)
@pytest.mark.parametrize("path", PATHS)
def test_saved_logits_have_the_statistics_and_gradients_of_what_is_saved(
    path: Path, dtype: torch.dtype
) -> None:
    if path is Path.HOPPER and dtype == torch.float32:
        pytest.skip("the Hopper path has no float32: its tiles are larger than shared memory")
    case = random_case(45, 72, 203, dtype)
    hidden, weight = case.hidden.detach(), case.weight.detach()
    with tiles.only(path):
        log_probs, entropy, _, _, kept, _ = ops.forward(
            hidden, weight, case.labels, case.temperature.reciprocal(), IGNORED, True, 0, "", True
        )
        results = run(case, mode=Mode.SAVED_LOGITS, width=64)
    active = case.labels != IGNORED
    logits = torch.zeros(45, 203, device=DEVICE, dtype=torch.float64)
    logits[active] = kept[: int(active.sum()), :203].double()
    assert error(logits[active], (hidden.double() @ weight.double().T)[active]) <= GRADIENT_LIMITS[dtype]
    exact = exact_outputs(logits, case.labels, case.temperature)
    assert error(log_probs, exact[0]) <= OUTPUT_LIMIT and error(entropy, exact[1]) <= OUTPUT_LIMIT
    assert torch.equal(results[0], log_probs) and torch.equal(results[1], entropy)
    d_logits = exact_d_logits(logits, case)
    assert error(results[2], d_logits @ weight.double()) <= GRADIENT_LIMITS[dtype]
    assert error(results[3], d_logits.T @ hidden.double()) <= GRADIENT_LIMITS[dtype]


@pytest.mark.parametrize("mode", Mode, ids=str)
@pytest.mark.parametrize("path", PATHS)
def test_the_same_bits_twice(path: Path, mode: Mode) -> None:
    case = random_case(50, 40, 150, torch.float16)
    with tiles.only(path):
        first, second = run(case, mode=mode, width=48), run(case, mode=mode, width=48)
    assert all(torch.equal(left, right) for left, right in zip(first, second, strict=True))


@pytest.mark.parametrize("path", TRITON_PATHS)
def test_statistics_of_all_rows_or_of_none(path: Path) -> None:
    case = random_case(35, 72, 203, torch.bfloat16)
    hidden, weight, labels = case.hidden.detach(), case.weight.detach(), case.labels.clamp(min=0).int()
    with tiles.only(path):
        plan = choose_plan(TileWork.STATISTICS, hidden, weight)
    matrices_and_rows = (plan, hidden, weight, labels, torch.ones(35, device=DEVICE), None)
    from tuner.kernels.forward import partial_statistics

    right, one_ignored, cold = (
        torch.tensor([count, 0, 202, 1.0, inverse], device=DEVICE, dtype=torch.float64)
        for count, inverse in ((35, 1.0), (34, 1.0), (35, 2e6))
    )
    at_once = partial_statistics(*matrices_and_rows)
    assert at_once.isfinite().all()
    assert torch.equal(partial_statistics(*matrices_and_rows, right), at_once)
    for wrong in (one_ignored, cold):
        assert partial_statistics(*matrices_and_rows, wrong).isnan().all()  # what new tensors are full of


@pytest.mark.parametrize(("ignored", "order"), [(0, "launch, wait"), (3, "launch, wait, launch")])
@pytest.mark.parametrize("path", TRITON_PATHS)
def test_the_host_hears_which_rows_take_part_while_the_device_works(
    path: Path, ignored: int, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = random_case(35, 72, 203, torch.bfloat16)
    labels = case.labels.clamp(min=0)
    labels[:ignored] = IGNORED
    events: list[str] = []
    compute, wait = ops.statistics_by_parts, Look.rows

    def launched(*arguments: Any, **named: Any) -> Parts:
        events.append("launch")
        return compute(*arguments, **named)

    def waited(look: Look) -> Rows:
        events.append("wait")
        return wait(look)

    monkeypatch.setattr(ops, "statistics_by_parts", launched)
    monkeypatch.setattr(Look, "rows", waited)
    with tiles.only(path):
        linear_cross_entropy(case.hidden, case.weight, labels)
    assert ", ".join(events) == order


@pytest.mark.parametrize("mode", Mode, ids=str)
@pytest.mark.parametrize("path", PATHS)
def test_rows_left_out_touch_nothing_even_if_they_are_not_finite(path: Path, mode: Mode) -> None:
    case = random_case(20, 16, 70, torch.float16)
    with tiles.only(path):
        clean = run(case, mode=mode)
        with torch.no_grad():
            case.hidden[case.labels == IGNORED] = float("nan")
        case.temperature[case.labels == IGNORED] = 0
        again = run(case, mode=mode)
    assert all(torch.equal(left, right) for left, right in zip(clean, again, strict=True))


@pytest.mark.parametrize("mode", Mode, ids=str)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("left_out", ["no rows", "all ignored", "no gradients"])
def test_nothing_to_work_on(path: Path, mode: Mode, left_out: str) -> None:
    case = random_case(0 if left_out == "no rows" else 4, 8, 33, torch.float16)
    case.labels.fill_(IGNORED if left_out == "all ignored" else 3)
    if left_out == "no gradients":
        case.d_log_probs.zero_()
        case.d_entropy.zero_()
    with tiles.only(path):
        log_probs, entropy, d_hidden, d_weight = run(case, mode=mode)
    assert log_probs.shape == entropy.shape == case.labels.shape
    assert bool(log_probs.any()) == (left_out == "no gradients")
    assert d_hidden.shape == case.hidden.shape and not d_hidden.any()
    assert d_weight.shape == case.weight.shape and not d_weight.any()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("wanted", ["hidden", "weight"])
def test_a_frozen_input_gets_no_gradient_and_the_other_the_same(path: Path, wanted: str) -> None:
    case = random_case(20, 16, 70, torch.float16)
    with tiles.only(path):
        _, _, d_hidden, d_weight = run(case)
        (case.weight if wanted == "hidden" else case.hidden).requires_grad_(False)
        outputs = linear_cross_entropy(case.hidden, case.weight, case.labels, case.temperature)
        upstream = (case.d_log_probs, case.d_entropy)
        (gradient,) = torch.autograd.grad(outputs, getattr(case, wanted), upstream)
    assert torch.equal(gradient, d_hidden if wanted == "hidden" else d_weight)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("used", [0, 1], ids=["log_probs", "entropy"])
def test_one_result_used_alone_is_as_the_other_with_a_zero_gradient(path: Path, used: int) -> None:
    case = random_case(20, 16, 70, torch.float16)
    (case.d_entropy if used == 0 else case.d_log_probs).zero_()
    with tiles.only(path):
        expected = run(case)[2:]
        outputs = linear_cross_entropy(case.hidden, case.weight, case.labels, case.temperature)
        upstream = (case.d_log_probs, case.d_entropy)[used]
        gradients = torch.autograd.grad(outputs[used], (case.hidden, case.weight), upstream)
    assert all(torch.equal(left, right) for left, right in zip(gradients, expected, strict=True))


@pytest.mark.parametrize("path", PATHS)
def test_strided_and_batched_inputs(path: Path) -> None:
    case = random_case(12, 16, 70, torch.float16)
    hidden = case.hidden.detach().repeat_interleave(2, 1).reshape(3, 4, 32)[..., ::2].requires_grad_()
    weight = case.weight.detach().T.contiguous().T.requires_grad_()
    labels = case.labels.int().reshape(3, 4)
    with tiles.only(path):
        expected = run(case)
        outputs = linear_cross_entropy(hidden, weight, labels, case.temperature.reshape(3, 4))
        upstream = (case.d_log_probs.reshape(3, 4), case.d_entropy.reshape(3, 4))
        results = [*outputs, *torch.autograd.grad(outputs, (hidden, weight), upstream)]
    assert all(
        torch.equal(left.reshape(right.shape), right) for left, right in zip(results, expected, strict=True)
    )


@pytest.mark.parametrize("path", PATHS)
def test_a_number_is_a_temperature_for_every_row(path: Path) -> None:
    case = random_case(12, 16, 70, torch.float16)
    case.temperature.fill_(0.75)
    with tiles.only(path):
        expected = linear_cross_entropy(case.hidden, case.weight, case.labels, case.temperature)
        for temperature in (0.75, torch.tensor(0.75, device=DEVICE)):
            outputs = linear_cross_entropy(case.hidden, case.weight, case.labels, temperature)
            assert all(torch.equal(left, right) for left, right in zip(outputs, expected, strict=True))
    logits = case.hidden.detach().double() @ case.weight.detach().double().T
    assert error(expected[1].detach(), exact_outputs(logits, case.labels, 0.75)[1]) <= OUTPUT_LIMIT


def test_reductions() -> None:
    case = random_case(12, 16, 70, torch.float32)
    inputs = (case.hidden, case.weight, case.labels, 1.0)
    losses, entropy = linear_cross_entropy(*inputs)
    for reduction, exact in (("sum", losses.sum()), ("mean", losses.sum() / 8), ("NONE", losses)):
        reduced, entropy_again = linear_cross_entropy(*inputs, reduction)
        torch.testing.assert_close(reduced, exact)
        assert torch.equal(entropy_again, entropy)
    ignored = torch.full_like(case.labels, IGNORED)
    assert linear_cross_entropy(case.hidden, case.weight, ignored, 1.0, "mean")[0] == 0


def test_another_ignored_label() -> None:
    case = random_case(12, 16, 70, torch.float32)
    expected = linear_cross_entropy(case.hidden, case.weight, case.labels)
    labels = case.labels.where(case.labels != IGNORED, 70)
    outputs = linear_cross_entropy(case.hidden, case.weight, labels, ignore_index=70)
    assert all(torch.equal(left, right) for left, right in zip(outputs, expected, strict=True))


def test_without_gradients_no_logits_are_kept() -> None:
    case = random_case(12, 16, 70, torch.float16)
    with torch.no_grad():
        recomputed = linear_cross_entropy(case.hidden, case.weight, case.labels)
        saved = linear_cross_entropy(case.hidden, case.weight, case.labels, mode=Mode.SAVED_LOGITS)
    assert all(torch.equal(left, right) for left, right in zip(recomputed, saved, strict=True))


def test_autocast_casts_both_as_a_linear_layer() -> None:
    case = random_case(12, 16, 70, torch.float32)
    halves = random_case(12, 16, 70, torch.bfloat16)
    expected = run(halves)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        outputs = linear_cross_entropy(case.hidden, case.weight, case.labels, case.temperature)
    upstream = (case.d_log_probs, case.d_entropy)
    results = [*outputs, *torch.autograd.grad(outputs, (case.hidden, case.weight), upstream)]
    assert results[2].dtype == results[3].dtype == torch.float32
    assert all(torch.equal(left, right.float()) for left, right in zip(results, expected, strict=True))
