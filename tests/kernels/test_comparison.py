"""verl's ways to compute log-probability and entropy, against float64."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import pytest
import torch
from msgspec import structs
from torch import Tensor

from tests.kernels.exact import DEVICE, IGNORED, Case, error, exact_d_logits, exact_outputs, random_case
from tuner.kernels import tiles
from tuner.kernels.comparison import HEADS, IMPLEMENTATIONS, from_logits, fused, verl_log_prob_and_entropy
from tuner.workload import HeadKind, OutputHead, Scaling

Outputs = tuple[Tensor, Tensor]
EAGER = OutputHead(kind=HeadKind.LOGITS, compiled=False)
FUSED = OutputHead(kind=HeadKind.FUSED_TORCH)
# What torch's compiler says of itself.
COMPILES = (pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.sampled(16))
NAMES = [
    pytest.param(name, marks=COMPILES if head.compiled and head.kind is HeadKind.LOGITS else ())
    for name, head in HEADS.items()
]
# Rows, hidden size, vocabulary; more rows than two chunks in the last.
SIZES = [(1, 8, 1), (5, 8, 33), (63, 72, 203), (1037, 9, 17)]
CHUNK = 500


@pytest.fixture(autouse=True)
def _in_torch_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel in flash-attention's place is not what is tested, and slow where it is interpreted."""
    monkeypatch.setattr(tiles, "has_triton", lambda tensor: tensor.is_cuda)


@cache
def traced(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return torch.compile(function, dynamic=True, backend="aot_eager")


@pytest.fixture(autouse=True)
def _traced_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As compiled up to the C++ that torch would write for a CPU: 20 s to build, and no GPU runs it."""
    if DEVICE == "cpu":
        monkeypatch.setattr(from_logits, "_compiled", traced)


def labelled(sizes: tuple[int, int, int], dtype: torch.dtype) -> Case:
    """A case in which no label is ignored: verl masks the loss, not the labels."""
    case = random_case(*sizes, dtype)
    return replace(case, labels=case.labels.where(case.labels != IGNORED, sizes[2] - 1))


def with_gradients(case: Case, compute: Callable[..., Outputs], temperature: float | Tensor) -> list[Tensor]:
    """Both results and both gradients."""
    inputs = [matrix.detach().clone().requires_grad_() for matrix in (case.hidden, case.weight)]
    outputs = compute(*inputs, case.labels, temperature)
    upstream = [
        gradient.to(output.dtype)
        for gradient, output in zip((case.d_log_probs, case.d_entropy), outputs, strict=True)
    ]
    torch.autograd.backward(outputs, upstream)
    return [output.detach() for output in outputs] + [
        matrix.grad for matrix in inputs if matrix.grad is not None
    ]


def exact(case: Case, logits: Tensor) -> list[Tensor]:
    """Results and gradients in float64, from logits not yet divided by the case's temperature."""
    d_logits = exact_d_logits(logits, case)
    hidden, weight = case.hidden.detach().double(), case.weight.detach().double()
    return [
        *exact_outputs(logits.double(), case.labels, case.temperature),
        d_logits @ weight,
        d_logits.T @ hidden,
    ]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_float32_against_float64(name: str, sizes: tuple[int, int, int]) -> None:
    case = labelled(sizes, torch.float32)
    head = HEADS[name]
    if head.chunk_tokens is not None:
        head = structs.replace(head, chunk_tokens=CHUNK)
    case.temperature.fill_(1.0)
    values = with_gradients(case, partial(verl_log_prob_and_entropy, head=head), 1.0)
    truth = exact(case, case.hidden.detach().double() @ case.weight.detach().double().T)
    for value, expected in zip(values, truth, strict=True):
        assert error(value, expected) <= 3e-6


@pytest.mark.parametrize("scaling", Scaling)
@pytest.mark.parametrize("number", [True, False], ids=["number", "tensor"])
def test_temperatures(number: bool, scaling: Scaling) -> None:
    case = labelled((63, 72, 203), torch.float32)
    if number:
        case.temperature.fill_(0.7)
    compute = partial(verl_log_prob_and_entropy, head=structs.replace(EAGER, scaling=scaling))
    values = with_gradients(case, compute, 0.7 if number else case.temperature)
    truth = exact(case, case.hidden.detach().double() @ case.weight.detach().double().T)
    for value, expected in zip(values, truth, strict=True):
        assert error(value, expected) <= 3e-6


def test_a_fused_head_divides_by_a_number_only() -> None:
    case = labelled((63, 72, 203), torch.float32)
    case.temperature.fill_(0.7)
    compute = partial(verl_log_prob_and_entropy, head=FUSED)
    truth = exact(case, case.hidden.detach().double() @ case.weight.detach().double().T)
    for value, expected in zip(with_gradients(case, compute, 0.7), truth, strict=True):
        assert error(value, expected) <= 3e-6
    with pytest.raises(ValueError, match="temperature must be a number"):
        compute(case.hidden, case.weight, case.labels, case.temperature)


@pytest.mark.parametrize("name", NAMES)
def test_16_bit_logits_are_all_that_is_rounded_before_the_results(name: str) -> None:
    case = labelled((63, 72, 203), torch.bfloat16)
    case.temperature.fill_(1.0)
    values = with_gradients(case, IMPLEMENTATIONS[name], 1.0)
    truth = exact(case, (case.hidden @ case.weight.T).detach())
    fused_head = HEADS[name].kind is HeadKind.FUSED_TORCH
    assert values[0].dtype is torch.float32
    assert values[1].dtype is (torch.bfloat16 if fused_head else torch.float32)
    assert error(values[0], truth[0]) <= 1e-6
    assert error(values[1], truth[1]) <= (2**-8 if fused_head else 1e-6)
    # The gradients of both results are rounded before they are added, and the sum is.
    assert error(values[2], truth[2]) <= 6e-3
    assert error(values[3], truth[3]) <= 6e-3


@pytest.mark.parametrize("scaling", [Scaling.COPY, Scaling.IN_PLACE], ids=lambda scaling: scaling.value)
@pytest.mark.parametrize("number", [True, False], ids=["number", "tensor"])
def test_a_temperature_is_rounded_as_the_logits_are_but_for_a_number_in_place(
    number: bool, scaling: Scaling
) -> None:
    case = labelled((63, 72, 203), torch.bfloat16)
    case.temperature.fill_(0.7)
    logits, rounded = (case.hidden @ case.weight.T).detach(), case.temperature[0].bfloat16()
    assert float(rounded) != pytest.approx(0.7, rel=1e-4)
    divided = logits / (0.7 if number and scaling is Scaling.IN_PLACE else rounded)
    outputs = verl_log_prob_and_entropy(
        case.hidden,
        case.weight,
        case.labels,
        0.7 if number else case.temperature,
        head=structs.replace(EAGER, scaling=scaling),
    )
    truth = exact_outputs(divided.double(), case.labels, 1.0)
    assert all(error(value.detach(), exact) <= 1e-6 for value, exact in zip(outputs, truth, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_without_a_kernel_the_rows_give_the_same(dtype: torch.dtype) -> None:
    case = labelled((21, 16, 70), dtype)
    by_rows = partial(verl_log_prob_and_entropy, head=structs.replace(EAGER, fused_cross_entropy=False))
    values, expected = (
        with_gradients(case, compute, case.temperature) for compute in (by_rows, IMPLEMENTATIONS["eager"])
    )
    assert all(error(left, right.double()) <= 1e-6 for left, right in zip(values[:2], expected, strict=False))
    limit = 1e-6 if dtype is torch.float32 else 5e-3
    assert all(error(left, right.double()) <= limit for left, right in zip(values, expected, strict=True))


@pytest.mark.parametrize("name", ["eager", "eager, chunked", "fused, torch"])
def test_results_are_shaped_like_the_labels(name: str) -> None:
    case = labelled((12, 16, 70), torch.float32)
    flat = with_gradients(case, IMPLEMENTATIONS[name], 1.0)
    batch = replace(case, hidden=case.hidden.detach().reshape(3, 4, 16), labels=case.labels.reshape(3, 4))
    batch = replace(batch, d_log_probs=case.d_log_probs.view(3, 4), d_entropy=case.d_entropy.view(3, 4))
    values = with_gradients(batch, IMPLEMENTATIONS[name], 1.0)
    assert values[0].shape == values[1].shape == (3, 4) and values[2].shape == (3, 4, 16)
    assert all(
        torch.equal(left.reshape(right.shape), right) for left, right in zip(values, flat, strict=True)
    )


@pytest.mark.parametrize("used", [0, 1], ids=["log_probs", "entropy"])
@pytest.mark.parametrize("frozen", ["hidden", "weight"])
def test_a_fused_head_of_which_one_result_and_one_gradient_is_asked(used: int, frozen: str) -> None:
    case = labelled((21, 16, 70), torch.float32)
    case.temperature.fill_(1.0)
    (case.d_entropy if used == 0 else case.d_log_probs).zero_()
    truth = exact(case, case.hidden.detach().double() @ case.weight.detach().double().T)
    getattr(case, frozen).requires_grad_(False)
    outputs = IMPLEMENTATIONS["fused, torch"](case.hidden, case.weight, case.labels)
    outputs[used].backward((case.d_log_probs, case.d_entropy)[used])
    other, expected = (case.weight, truth[3]) if frozen == "hidden" else (case.hidden, truth[2])
    assert getattr(case, frozen).grad is None
    assert other.grad is not None and error(other.grad, expected) <= 3e-6


def test_no_other_kind_of_head() -> None:
    case = labelled((2, 8, 5), torch.float32)
    with pytest.raises(ValueError, match="not value"):
        verl_log_prob_and_entropy(case.hidden, case.weight, case.labels, head=OutputHead(kind=HeadKind.VALUE))


def test_all_ways_in_torch_are_compared() -> None:
    assert len(HEADS) == 9 and "fused, torch" in HEADS
    assert fused.CHUNK_TOKENS == 512
