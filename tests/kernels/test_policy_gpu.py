"""The policy loss at real sizes on a GPU, in bfloat16, against float64.

T: rows (tokens). V: vocabulary entries. H: hidden size. C: rows of a chunk.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.kernels.exact import IGNORED, Case, exact_outputs
from tests.kernels.exact_policy import BONUSES, LOG_RATIOS, PolicyCase, exact_policy
from tests.kernels.policy_runs import assert_same, loss_of, run
from tuner.kernels import tiles
from tuner.kernels.tiles import Path
from tuner.units import GIB

pytestmark = pytest.mark.gpu

GRADIENT_LIMIT = 3e-3  # of two roundings to bfloat16, 2.3e-3, and of logits rounded the other way
CHUNK = 1024  # rows whose float64 logits exist at a time
SIZES = [
    (4096, 3584, 152064, 0),
    (4096, 3584, 152064, 1111),
    (1111, 2048, 128256, 0),
    (513, 1024, 50257, 200),
    (63, 896, 151936, 0),
]


def rows_of(case: PolicyCase, part: slice) -> PolicyCase:
    """Some of its rows."""
    head = replace(
        case.head,
        hidden=case.head.hidden.detach()[part],
        labels=case.head.labels[part],
        temperature=case.head.temperature[part],
    )
    names = ("old_log_probs", "advantages", "token_weights", "ref_log_probs")
    return replace(case, head=head, **{name: getattr(case, name)[part] for name in names})


def rounded_logits(head: Case) -> Tensor:
    """Logits of exact products, rounded once."""
    exact = head.hidden.detach().double() @ head.weight.detach().double().T
    return exact.to(head.hidden.dtype)


def large_case(tokens: int, hidden: int, vocabulary: int) -> PolicyCase:
    """Logits of standard deviation 1; an eighth ignored, a quarter clipped, an eighth without advantage."""
    generator = torch.Generator("cuda").manual_seed(0)

    def normal(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.randn(sizes, device="cuda", dtype=dtype, generator=generator)

    labels = torch.randint(vocabulary, (tokens,), device="cuda", generator=generator)
    labels[5::8] = IGNORED
    advantages = normal(tokens)
    advantages[3::8] = 0
    head = Case(
        hidden=normal(tokens, hidden, dtype=torch.bfloat16).requires_grad_(),
        weight=normal(vocabulary, hidden, dtype=torch.bfloat16).mul_(hidden**-0.5).requires_grad_(),
        labels=labels,
        temperature=torch.rand(tokens, device="cuda", generator=generator) + 0.5,
        d_log_probs=advantages,
        d_entropy=advantages,
    )
    case = PolicyCase(
        head=head,
        old_log_probs=advantages,
        advantages=advantages,
        token_weights=torch.rand(tokens, device="cuda", generator=generator) / tokens,
        ref_log_probs=advantages,
    )
    log_probs = []
    for start in range(0, tokens, CHUNK):
        part = rows_of(case, slice(start, start + CHUNK)).head
        log_probs.append(exact_outputs(rounded_logits(part).double(), part.labels, part.temperature)[0])
    old = torch.cat(log_probs) - torch.tensor(LOG_RATIOS, device="cuda").repeat(tokens)[:tokens]
    reference = torch.cat(log_probs) + 0.3 * normal(tokens)
    return replace(case, old_log_probs=old.float(), ref_log_probs=reference.float())


def assert_near(value: Tensor, exact: Tensor, limit: float) -> None:
    assert float((value.double() - exact).norm() / exact.norm()) <= limit


@pytest.mark.parametrize("path", [Path.PORTABLE, None], ids=str)
@pytest.mark.parametrize("coefficients", [{}, BONUSES], ids=["plain", "bonuses"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_real_shapes(
    sizes: tuple[int, int, int, int], coefficients: dict[str, float], path: Path | None
) -> None:
    case = large_case(*sizes[:3])
    case.coefficients.update(coefficients)
    with tiles.only(path or tiles.choose_path(case.head.hidden, case.head.weight)):
        loss, log_probs, entropy, d_hidden, d_weight = run(case, chunk_tokens=sizes[3])
    exact_d_weight = torch.zeros_like(d_weight, dtype=torch.float64)
    size = exact_loss = 0.0
    for start in range(0, sizes[0], CHUNK):
        rows = slice(start, start + CHUNK)
        part = rows_of(case, rows)
        exact = exact_policy(rounded_logits(part.head), part)
        # A few logits in ten thousand are rounded the other way, for their float32 product is on the
        # other side of a tie. A label's of 4 that is off by 1/64 is 0.03 at temperature 0.5: for one
        # of 63 rows with log-probabilities near -12, 3e-4.
        assert_near(log_probs[rows], exact.log_probs, 3e-4)
        assert_near(entropy[rows], exact.entropy, 1e-5)
        assert_near(d_hidden[rows], exact.d_hidden, GRADIENT_LIMIT)
        assert not d_hidden[rows][exact.without_gradient].any()
        exact_d_weight += exact.d_weight
        size, exact_loss = size + float(exact.size), exact_loss + float(exact.loss)
    assert_near(d_weight, exact_d_weight, GRADIENT_LIMIT)
    assert abs(float(loss) - exact_loss) <= 1e-3 * size


@pytest.mark.parametrize("chunk_tokens", [0, 700])
def test_the_same_bits_twice(chunk_tokens: int) -> None:
    case = large_case(2000, 1024, 50257)
    assert_same(run(case, chunk_tokens=chunk_tokens), run(case, chunk_tokens=chunk_tokens))


def test_peak_beyond_the_inputs() -> None:
    """The peak of 16384 rows: 4096 rows of logits, the float32 sum of the weight's gradient, the hidden's."""
    tokens, hidden, vocabulary = 16384, 3584, 152064
    case = large_case(tokens, hidden, vocabulary)
    case.head.labels.clamp_(min=0)
    loss_of(case).loss.backward()  # what libraries keep is there now
    case.head.hidden.grad = case.head.weight.grad = None
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    loss_of(case).loss.backward()
    logits, gradient_sum, d_hidden = 2 * 4096 * vocabulary, 4 * vocabulary * hidden, 2 * tokens * hidden
    needed = logits + gradient_sum + d_hidden
    assert needed <= torch.cuda.max_memory_allocated() - before <= needed + 0.25 * GIB
