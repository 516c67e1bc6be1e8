"""Shares of the peak by shape: what the tables hold, what lies between, and cards without one."""

from itertools import pairwise
from math import sqrt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tuner.gpus import find_gpu, gpu_names
from tuner.timing.cards import attained
from tuner.timing.operators import (
    REFERENCE,
    Operators,
    Shares,
    attention_share,
    operators_of,
    product_share,
)

TABLES = sorted(file.stem for file in (Path(__file__).parents[2] / "profiles" / "operators").glob("*.json"))
SMALL = Shares(
    sizes=(64, 256), tokens=(10, 1000), forward=((0.1, 0.4), (0.2, 0.4)), backward=((0.2, 0.3),) * 2
)


@pytest.mark.parametrize("gpu", TABLES)
def test_a_table_belongs_to_a_card_and_holds_shares(gpu: str) -> None:
    assert gpu in gpu_names()
    table = operators_of(gpu)
    assert table.gpu == gpu
    for shares in (table.products, table.attention):
        for axis in (shares.sizes, shares.tokens):
            assert len(axis) > 1 and all(low < high for low, high in pairwise(axis))
        for rows in (shares.forward, shares.backward):
            assert [len(row) for row in rows] == [len(shares.tokens)] * len(shares.sizes)
            assert all(0.02 < share < 1 for row in rows for share in row)


@pytest.mark.parametrize("gpu", TABLES)
def test_what_was_measured_comes_back(gpu: str) -> None:
    table: Operators = operators_of(gpu)
    for shares in (table.products, table.attention):
        for size, row in zip(shares.sizes, shares.backward, strict=True):
            for tokens, share in zip(shares.tokens, row, strict=True):
                assert shares.at(size, tokens, backward=True) == pytest.approx(share)


def test_what_lies_between_is_between_in_logarithms() -> None:
    assert SMALL.at(64, 100, backward=False) == pytest.approx(sqrt(0.1 * 0.4))
    assert SMALL.at(128, 10, backward=False) == pytest.approx(sqrt(0.1 * 0.2))


def test_the_edges_hold() -> None:
    assert SMALL.at(1, 1, backward=False) == pytest.approx(0.1)
    assert SMALL.at(9999, 99999, backward=True) == pytest.approx(0.3)


@given(
    st.sampled_from(TABLES),
    st.floats(1, 1e5),
    st.floats(1, 1e6),
    st.booleans(),
)
def test_no_share_is_outside_its_table(gpu: str, size: float, tokens: float, backward: bool) -> None:
    shares = operators_of(gpu).products
    measured = [share for row in (shares.backward if backward else shares.forward) for share in row]
    assert min(measured) * 0.999 <= shares.at(size, tokens, backward=backward) <= max(measured) * 1.001


@pytest.mark.parametrize("gpu", ["a100-sxm-80g", "h20-sxm", "mi300x", "l20"])
def test_a_table_is_carried_over_by_arithmetic_and_by_what_is_beside_it(gpu: str) -> None:
    card, reference = find_gpu(gpu), find_gpu(REFERENCE)
    rows = [product_share(card, width=3584, rows=rows, backward=False) for rows in (128, 512, 2048)]
    assert rows == sorted(rows)
    assert all(share < attained(card).typical * 1.001 for share in rows)
    # Twice the bandwidth shortens what is beside the arithmetic, and nothing else.
    faster = replace(card, memory_bytes_per_s=2 * card.memory_bytes_per_s)
    shares = [
        attention_share(one, head_dim=128, tokens=2048, backward=False) for one in (reference, card, faster)
    ]
    beside = [1 / share - 1 / attained(card).typical for share in shares[1:]]
    assert beside[0] == pytest.approx(2 * beside[1])


@pytest.mark.parametrize("gpu", TABLES)
@given(size=st.floats(100, 2e4), tokens=st.floats(1, 1e5), more=st.floats(1, 8), backward=st.booleans())
def test_more_tokens_never_take_less_time(
    gpu: str, size: float, tokens: float, more: float, backward: bool
) -> None:
    table = operators_of(gpu)
    for shares in (table.products, table.grouped):
        assert shares is not None
        fewer, most = (count / shares.at(size, count, backward=backward) for count in (tokens, more * tokens))
        assert fewer <= most * (1 + 1e-9)
    assert table.elementwise is not None
    operation = table.elementwise.norm
    first, second = (
        table.elementwise.bytes_of(operation, 1e3 * count, backward=backward)
        for count in (tokens, more * tokens)
    )
    assert first <= second * (1 + 1e-9)


def test_a_card_like_the_measured_one_has_its_shares() -> None:
    again = replace(find_gpu(REFERENCE), name="mine")
    ours = operators_of(REFERENCE).attention.at(128, 2048, backward=False)
    assert attention_share(again, head_dim=128, tokens=2048, backward=False) == pytest.approx(ours)


@pytest.mark.parametrize("gpu", gpu_names())
def test_what_a_card_attains_is_inside_its_interval(gpu: str) -> None:
    share = attained(find_gpu(gpu))
    assert 0.3 < share.low < share.typical < share.high < 1 and share.source


def test_power_does_not_hold_back_a_card_with_few_tensor_cores() -> None:
    assert attained(find_gpu("h20-sxm")).low > attained(find_gpu("h800-sxm")).typical


def test_a_profile_of_a_name_that_is_a_path_reads_no_file() -> None:
    assert operators_of("../gpus/h200-sxm") == operators_of(REFERENCE)
