"""The head with the policy loss in it, against float64: every path at sizes that reach every branch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.kernels.exact import DEVICE, IGNORED, error
from tests.kernels.exact_policy import BONUSES, PolicyCase, exact_policy, random_policy_case
from tests.kernels.policy_runs import PATHS, assert_same, loss_of, run
from tuner.kernels import (
    policy_chunks,
    reference,
    tiles,
)
from tuner.kernels.backward import converting
from tuner.kernels.head_statistics import Parts
from tuner.kernels.tiles import Path

pytestmark = pytest.mark.sampled(6)

# Rows, hidden size, vocabulary, rows of a chunk. Of odd hidden sizes the copy engine takes none.
SIZES = [(1, 8, 1, 0), (26, 8, 33, 7), (45, 72, 203, 0), (45, 72, 203, 16), (1, 24, 1000, 1)]
ODD_SIZES = [(3, 1, 2, 2), (17, 17, 65, 0), (35, 9, 257, 11)]
# As the other head's: rounding of a gradient and of that of the logits; the interpreter cuts bfloat16 off.
GRADIENT_LIMITS = {torch.float32: 3e-6, torch.float16: 5e-4, torch.bfloat16: 5e-3}
OUTPUT_LIMIT = 1e-6

Sizes = tuple[int, int, int, int]
Kept = Callable[[PolicyCase], Tensor]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    """The logits of all rows as they were kept, zero for ignored ones."""
    chunks: list[Tensor] = []
    statistics_by_parts = policy_chunks.statistics_by_parts

    def spy(*arguments: Any) -> Parts:
        parts = statistics_by_parts(*arguments)
        chunks.append(arguments[4].clone())
        return parts

    monkeypatch.setattr(policy_chunks, "statistics_by_parts", spy)

    def logits_of(case: PolicyCase) -> Tensor:
        active = case.head.labels != IGNORED
        exact = case.head.hidden.detach().double() @ case.head.weight.detach().double().T
        logits = torch.zeros_like(exact)
        logits[active] = torch.cat(chunks)[:, : exact.shape[1]].double()
        assert error(logits[active], exact[active]) <= GRADIENT_LIMITS[case.head.hidden.dtype]
        return logits

    return logits_of


def assert_exact(case: PolicyCase, results: list[Tensor], logits: Tensor) -> None:
    loss, log_probs, entropy, d_hidden, d_weight = results
    exact, dtype = exact_policy(logits, case), case.head.hidden.dtype
    assert loss.dtype == log_probs.dtype == entropy.dtype == torch.float32
    assert d_hidden.dtype == d_weight.dtype == dtype
    assert error(log_probs, exact.log_probs) <= OUTPUT_LIMIT and error(entropy, exact.entropy) <= OUTPUT_LIMIT
    assert abs(loss - exact.loss) <= 3e-6 * exact.size
    assert error(d_hidden, exact.d_hidden) <= GRADIENT_LIMITS[dtype]
    assert error(d_weight, exact.d_weight) <= GRADIENT_LIMITS[dtype]
    assert not d_hidden[exact.without_gradient].any()


@pytest.mark.sampled(12)
@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("dtype", GRADIENT_LIMITS, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("coefficients", [{}, BONUSES], ids=["plain", "bonuses"])
@pytest.mark.parametrize("path", PATHS)
def test_loss_and_gradients(
    path: Path, coefficients: dict[str, float], sizes: Sizes, dtype: torch.dtype, kept: Kept
) -> None:
    if path is Path.HOPPER and dtype == torch.float32:
        pytest.skip("the Hopper path has no float32: its tiles are larger than shared memory")
    case = random_policy_case(*sizes[:3], dtype, **coefficients)
    with tiles.only(path):
        results = run(case, chunk_tokens=sizes[3])
    assert_exact(case, results, kept(case))


@pytest.mark.parametrize("sizes", ODD_SIZES, ids=str)
@pytest.mark.parametrize("path", [PATHS[0], PATHS[2]])
def test_rows_that_are_no_multiple_of_16_bytes(path: Path, sizes: Sizes, kept: Kept) -> None:
    case = random_policy_case(*sizes[:3], torch.float16, **BONUSES)
    with tiles.only(path):
        results = run(case, chunk_tokens=sizes[3])
    assert_exact(case, results, kept(case))


@pytest.mark.parametrize("path", PATHS)
def test_any_chunk_gives_the_same_and_the_same_bits_twice(path: Path) -> None:
    case = random_policy_case(14, 16, 70, torch.float32 if DEVICE == "cpu" else torch.float16)
    with tiles.only(path):
        whole = run(case)
        for chunk_tokens in (1, 5, 999):
            results = run(case, chunk_tokens=chunk_tokens)
            assert all(
                error(left, right.double()) <= 1e-3 for left, right in zip(results, whole, strict=True)
            )
            assert_same(run(case, chunk_tokens=chunk_tokens), results)


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_rows_are_compacted_in_place_without_overwriting_one_another(moved: list[bool]) -> None:
    compaction = policy_chunks.compacted(torch.tensor(moved))
    sources = compaction.sources_C[: int(compaction.count)].tolist()
    assert all(0 <= source < len(moved) for source in compaction.sources_C.tolist())
    assert sorted(sources) == [row for row, is_moved in enumerate(moved) if is_moved]
    assert all(source == place or source >= len(sources) for place, source in enumerate(sources))


@given(st.integers(1, 200_000), st.integers(64, 16384), st.sampled_from([torch.bfloat16, torch.float32]))
def test_chosen_chunks_are_long_and_cost_no_memory(rows: int, hidden: int, dtype: torch.dtype) -> None:
    size = policy_chunks.choose_chunk_tokens(rows, hidden, dtype, weight_wanted=True)
    element, tile = dtype.itemsize, 128
    assert size == rows or (size % tile == 0 and size > policy_chunks.LEAST_CHUNK // 2)
    while_adding = element * size + (element if size == rows else 4) * hidden
    shortest = element * policy_chunks.LEAST_CHUNK + 4 * hidden
    at_the_end = (4 if element == 4 else 4 + element) * hidden
    assert while_adding <= max(shortest, at_the_end + element * tile)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("without", [0, 5])
def test_chunks_of_rows_of_which_none_is_ignored_write_their_own_places(path: Path, without: int) -> None:
    dtype = torch.float32 if DEVICE == "cpu" else torch.float16
    case = random_policy_case(45, 16, 70, dtype, **BONUSES)
    case.head.labels.fill_(3)
    case.token_weights.fill_(1 / 45)
    case.token_weights[17 : 17 + without] = 0  # of the second chunk
    with tiles.only(path):
        whole, chunked = (run(case, chunk_tokens=tokens) for tokens in (0, 16))
    assert all(error(left, right.double()) <= 1e-3 for left, right in zip(chunked, whole, strict=True))
    assert int(chunked[3].any(1).sum()) == 45 - without


@pytest.mark.parametrize("path", [PATHS[0], PATHS[2]])
def test_rows_behind_the_count_are_read_and_stay_as_they_are(path: Path) -> None:
    """Another program may not have read them yet."""
    vocabulary, sources = 70, torch.tensor([0, 5, 2, 3, 4, 5], device=DEVICE)
    kept = torch.randn(6, tiles.padded(vocabulary, torch.float32), device=DEVICE)
    coefficients = torch.randn(6, 6, device=DEVICE)
    labels = torch.arange(6, device=DEVICE, dtype=torch.int32)
    before, count = kept.clone(), torch.tensor([3], device=DEVICE)
    write = converting(path, kept, sources, labels, coefficients, count)
    write(0, kept[:, :vocabulary])
    assert torch.equal(kept[3:], before[3:])
    expected = reference.d_logits(before[sources[:3], :vocabulary], labels[:3], coefficients[:, :3], 0)
    assert error(kept[:3, :vocabulary], expected.double()) <= 1e-5


def test_only_rows_with_a_gradient_are_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_policy_case(45, 16, 70, torch.float16)
    multiplied: list[int] = []
    add = policy_chunks._Gradients.add

    def spy(self: Any, d_logits: Tensor, *rest: Any) -> None:
        multiplied.append(d_logits.shape[0])
        add(self, d_logits, *rest)

    monkeypatch.setattr(policy_chunks._Gradients, "add", spy)
    run(case, chunk_tokens=20)
    logits = case.head.hidden.detach().double() @ case.head.weight.detach().double().T
    moved = 45 - int(exact_policy(logits, case).without_gradient.sum())
    assert len(multiplied) == 2 and sum(multiplied) == moved and 0 < moved < 25


@pytest.mark.parametrize("path", PATHS)
def test_what_is_left_out_is_not_looked_at(path: Path) -> None:
    case = random_policy_case(20, 16, 70, torch.float16, **BONUSES)
    ignored = case.head.labels == IGNORED
    with tiles.only(path):
        clean = run(case)
        with torch.no_grad():
            case.head.hidden[ignored] = torch.nan
        case.head.temperature[ignored] = 0
        for values in (case.old_log_probs, case.advantages, case.ref_log_probs):
            values[ignored | (case.token_weights == 0)] = torch.nan
        case.token_weights[ignored] = torch.nan
        assert_same(run(case), clean)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("left_out", ["no rows", "all ignored", "no weights", "no advantages"])
def test_nothing_to_work_on(path: Path, left_out: str) -> None:
    case = random_policy_case(0 if left_out == "no rows" else 4, 8, 33, torch.float16)
    case.head.labels.fill_(IGNORED if left_out == "all ignored" else 3)
    if left_out.startswith("no "):
        (case.token_weights if left_out == "no weights" else case.advantages).zero_()
    with tiles.only(path):
        loss, log_probs, entropy, d_hidden, d_weight = run(case, chunk_tokens=3)
    assert loss == 0 and log_probs.shape == entropy.shape == case.head.labels.shape
    assert bool(log_probs.any()) == (left_out in ("no weights", "no advantages"))
    assert d_hidden.shape == case.head.hidden.shape and not d_hidden.any()
    assert d_weight.shape == case.head.weight.shape and not d_weight.any()


@pytest.mark.parametrize("wanted", [(True, False), (False, True), (False, False)], ids=str)
def test_what_nobody_wants_is_not_computed(
    wanted: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = random_policy_case(9, 16, 70, torch.float16)
    case.head.hidden.requires_grad_(wanted[0])
    case.head.weight.requires_grad_(wanted[1])
    compute = policy_chunks.policy_gradients
    results: list[policy_chunks.ChunkResults] = []

    def spy(*arguments: Any, **named: Any) -> policy_chunks.ChunkResults:
        results.append(compute(*arguments, **named))
        return results[-1]

    monkeypatch.setattr(policy_chunks, "policy_gradients", spy)
    loss_of(case)
    with torch.no_grad():
        loss_of(case)
    computed = [(result.d_hidden_TH is not None, result.d_weight_VH is not None) for result in results]
    assert computed == [wanted, (False, False)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("chunk_tokens", [0, 6])
@pytest.mark.parametrize("wanted", ["hidden", "weight"])
def test_a_frozen_input_gets_no_gradient_and_the_other_the_same(
    path: Path, wanted: str, chunk_tokens: int
) -> None:
    case = random_policy_case(20, 16, 70, torch.float16)
    with tiles.only(path):
        *_, d_hidden, d_weight = run(case, chunk_tokens=chunk_tokens)
        (case.head.weight if wanted == "hidden" else case.head.hidden).requires_grad_(False)
        loss = loss_of(case, chunk_tokens=chunk_tokens).loss
        (gradient,) = torch.autograd.grad(loss, getattr(case.head, wanted))
    assert torch.equal(gradient, d_hidden if wanted == "hidden" else d_weight)
