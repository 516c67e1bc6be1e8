"""Tables of reading the cache and the weights: their nodes, what lies between them, and beyond their ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.timing.measured_reads import Plane
from tuner.timing.operators import REFERENCE, operators_of

TABLE = operators_of(REFERENCE)
assert TABLE.cache_reads is not None and TABLE.weight_reads is not None
PLANES = {"cache": TABLE.cache_reads.plane(), "weights": TABLE.weight_reads.plane()}


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
def test_a_table_is_met_where_it_was_measured(plane: Plane) -> None:
    for row, times in zip(plane.rows, plane.seconds, strict=True):
        assert len(times) == len(plane.columns) > 5
        for column, seconds in zip(plane.columns, times, strict=True):
            assert plane.at(row, column) == pytest.approx(seconds)


def test_rates_of_the_table_are_those_that_were_measured() -> None:
    reads = TABLE.cache_reads
    assert reads is not None
    most = PLANES["cache"].at(reads.contexts[-1], reads.token_bytes[-1])
    assert reads.contexts[-1] * reads.token_bytes[-1] / most == pytest.approx(reads.bytes_per_s[-1][-1])
    assert max(map(max, reads.bytes_per_s)) < TABLE.memory_bytes_per_s


@given(context=st.floats(0, 200_000), more=st.floats(1, 3), size=st.floats(500, 1e8), larger=st.floats(1, 3))
def test_more_to_read_never_takes_less(context: float, more: float, size: float, larger: float) -> None:
    plane = PLANES["cache"]
    once = plane.at(context, size)
    assert 0 < once <= plane.at(more * context, size) * (1 + 1e-9)
    assert once <= plane.at(context, larger * size) * (1 + 1e-9)


def test_beyond_the_ends_the_lines_go_on_and_never_below_nothing() -> None:
    plane = Plane(rows=(1, 2), columns=(1, 2), seconds=((1, 3), (2, 4)))
    assert plane.at(3, 1) == 3 and plane.at(1, 3) == 5 and plane.at(1.5, 1.5) == 2.5
    assert plane.at(1, 0) == plane.at(1, 1) == 1 and plane.at(-1, 1) == 0.0
    assert plane.scaled(rows=2, columns=3, seconds=10).at(2, 6) == 10 * plane.at(1, 2)
