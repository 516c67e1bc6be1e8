"""Log-probability and entropy from logits that exist, against float64."""

import pytest
import torch

from tests.kernels.exact import DEVICE, IGNORED, error, exact_d_logits, exact_outputs, random_case
from tuner.kernels import log_prob_and_entropy, tiles
from tuner.kernels.tiles import Path

pytestmark = pytest.mark.usefixtures("poisoned")

PATHS = [
    pytest.param(Path.PORTABLE, id="triton", marks=pytest.mark.triton),
    pytest.param(Path.REFERENCE, id="reference"),
]
# Of the rounding of the gradient; the interpreter cuts bfloat16 off, which doubles it.
LIMITS = {torch.float32: 1e-6, torch.float16: 3e-4, torch.bfloat16: 4e-3}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("sizes", [(1, 1), (7, 33), (20, 4096), (1, 20001), (3, 9001)], ids=str)
@pytest.mark.parametrize("path", PATHS)
def test_outputs_and_gradient(path: Path, sizes: tuple[int, int], dtype: torch.dtype) -> None:
    tokens, vocabulary = sizes
    case = random_case(tokens, 8, vocabulary, dtype)
    logits = (case.hidden.detach() @ case.weight.detach().T).requires_grad_()
    with tiles.only(path):
        outputs = log_prob_and_entropy(logits, case.labels, case.temperature)
        (d_logits,) = torch.autograd.grad(outputs, logits, (case.d_log_probs, case.d_entropy))
    exact = exact_outputs(logits.detach().double(), case.labels, case.temperature)
    assert all(error(left.detach(), right) <= 1e-6 for left, right in zip(outputs, exact, strict=True))
    assert d_logits.dtype == dtype
    assert error(d_logits, exact_d_logits(logits.detach(), case)) <= LIMITS[dtype]
    assert not d_logits[case.labels == IGNORED].any()


@pytest.mark.parametrize("path", PATHS)
def test_rows_that_are_left_out_are_not_read(path: Path) -> None:
    case = random_case(9, 8, 33, torch.float32)
    logits = (case.hidden @ case.weight.T).detach()
    logits[case.labels == IGNORED] = float("nan")
    logits.requires_grad_()
    with tiles.only(path):
        outputs = log_prob_and_entropy(logits, case.labels)
        (d_logits,) = torch.autograd.grad(outputs, logits, (case.d_log_probs, case.d_entropy))
    assert outputs[0].isfinite().all() and outputs[1].isfinite().all() and d_logits.isfinite().all()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("rows", [0, 4])
def test_nothing_to_work_on(path: Path, rows: int) -> None:
    logits = torch.randn(rows, 33, device=DEVICE, requires_grad=True)
    labels = torch.full((rows,), IGNORED, device=DEVICE)
    with tiles.only(path):
        log_probs, entropy = log_prob_and_entropy(logits, labels)
        (log_probs.sum() + entropy.sum()).backward()
    assert log_probs.shape == entropy.shape == (rows,) and not log_probs.any() and not entropy.any()
    assert logits.grad is not None and not logits.grad.any()


@pytest.mark.parametrize("path", PATHS)
def test_strided_and_batched_logits(path: Path) -> None:
    logits = torch.randn(4, 3, 80, device=DEVICE).half()
    labels = torch.randint(40, (4, 3), device=DEVICE)
    with tiles.only(path):
        expected = log_prob_and_entropy(logits[..., ::2].contiguous(), labels, 0.7)
        for view in (logits[..., ::2], logits[..., ::2].transpose(0, 1).contiguous().transpose(0, 1)):
            outputs = log_prob_and_entropy(view, labels, 0.7)
            assert all(torch.equal(left, right) for left, right in zip(outputs, expected, strict=True))
