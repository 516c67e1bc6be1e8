"""The head at real sizes on a GPU, in bfloat16, against float64.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

from functools import partial

import pytest
import torch
from torch import nn

from tests.kernels.exact import IGNORED
from tuner.kernels import Mode, linear_cross_entropy, tiles
from tuner.kernels.benchmark.exact import exact_results, rounded_results
from tuner.kernels.benchmark.heads import HEADS, Head, own_head
from tuner.kernels.benchmark.problem import ProblemShape, random_problem, with_policy
from tuner.kernels.benchmark.report import Task
from tuner.kernels.benchmark.timing import peak_bytes
from tuner.kernels.tiles import Path
from tuner.units import GIB

pytestmark = pytest.mark.gpu

LARGEST = "16384x3584x152064"
SHAPES = ["4096x3584x152064", "1111x2048x128256", "63x896x151936", "513x1024x50257", "300x7168x129280"]


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.name)
@pytest.mark.parametrize("shape", SHAPES)
def test_real_shapes(shape: str, head: Head) -> None:
    sizes = ProblemShape.parse(shape)
    problem = random_problem(sizes)
    if head.task is Task.POLICY_LOSS:
        problem = with_policy(problem)
    exact = exact_results(problem, head.task)
    rounded = rounded_results(problem, head.task).errors(exact)
    limits = head.rounding.limits(sizes, rounded, unit=torch.finfo(torch.bfloat16).eps / 2, slack=1.0)
    errors = head.both(problem).errors(exact)
    assert {name: error for name, error in errors.items() if not error <= limits[name]} == {}


@pytest.mark.parametrize("path", [Path.PORTABLE, None], ids=str)
def test_more_logits_than_32_bits_count(path: Path | None) -> None:
    head = own_head(Mode.SAVED_LOGITS, path)
    shape = ProblemShape(tokens=16384, hidden=64, vocabulary=151936)
    problem = random_problem(shape)
    errors = head.both(problem).errors(exact_results(problem))
    assert max(errors.values()) <= 4e-3


@pytest.mark.parametrize("mode", Mode, ids=str)
def test_the_same_bits_twice(mode: Mode) -> None:
    problem = random_problem(ProblemShape.parse("2000x1024x50257"))
    first, second = (own_head(mode).both(problem) for _ in range(2))
    assert all(torch.equal(value, second.present()[name]) for name, value in first.present().items())


def test_peaks_beyond_the_inputs() -> None:
    problem = random_problem(ProblemShape.parse(LARGEST))
    recompute, saved = own_head(Mode.RECOMPUTE), own_head(Mode.SAVED_LOGITS)
    recompute.both(problem)
    assert peak_bytes(partial(recompute.forward, problem)) <= 0.02 * GIB
    assert peak_bytes(partial(recompute.both, problem)) <= 1.6 * GIB
    assert peak_bytes(partial(saved.both, problem)) <= 6.9 * GIB


def test_hopper_takes_its_path_and_falls_back() -> None:
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("not a Hopper GPU")
    weight = torch.ones(50, 64, device="cuda", dtype=torch.bfloat16)
    assert tiles.choose_path(weight, weight) is Path.HOPPER
    assert tiles.choose_path(weight.float(), weight.float()) is Path.PORTABLE
    assert tiles.choose_path(weight[:, :63].contiguous(), weight[:, :63].contiguous()) is Path.PORTABLE
    assert tiles.choose_path(weight[:, 1:], weight) is Path.PORTABLE


class Model(nn.Module):
    """A small language model's end."""

    def __init__(self, mode: Mode) -> None:
        super().__init__()
        self.layer = nn.Linear(256, 256)
        self.head = nn.Linear(256, 32003, bias=False)
        self.mode = mode

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.silu(self.layer(inputs))
        log_probs, entropy = linear_cross_entropy(hidden, self.head.weight, labels, 0.9, mode=self.mode)
        return (log_probs.exp() + 0.1 * entropy).mean()


@pytest.mark.filterwarnings("ignore")  # what torch's compiler says of itself
@pytest.mark.parametrize("mode", Mode, ids=str)
def test_a_compiled_model_is_the_same_model(mode: Mode) -> None:
    torch.manual_seed(0)
    model = Model(mode).to("cuda", torch.bfloat16)
    inputs = torch.randn(2, 300, 256, device="cuda", dtype=torch.bfloat16)
    labels = torch.randint(32003, (2, 300), device="cuda")
    labels[:, :50] = IGNORED
    gradients = [
        torch.autograd.grad(run(inputs, labels), list(model.parameters()))
        for run in (model, torch.compile(model, fullgraph=True))
    ]
    for plain, traced in zip(*gradients, strict=True):
        assert float((traced - plain).double().norm()) <= 1e-2 * float(plain.double().norm())
