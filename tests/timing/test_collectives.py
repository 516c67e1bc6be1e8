"""Measured collectives: what a table says between and beyond its sizes, and where it holds."""

import json
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import workloads
from tuner import shipped
from tuner.hardware import Cluster, MeasuredGpu
from tuner.timing import assumptions as assume
from tuner.timing import communication
from tuner.timing.communication import OverlapTime, side_by_side_seconds
from tuner.timing.measured_tables import Collective, Collectives
from tuner.timing.operators import collectives_of

TABLE = Collectives(
    ranks=2,
    bytes=(1e3, 1e6, 1e9),
    all_gather=(20e-6, 30e-6, 2e-3),
    reduce_scatter=(30e-6, 20e-6, 3e-3),
    all_reduce=(20e-6, 40e-6, 4e-3),
    all_to_all=(10e-6, 20e-6, 1e-3),
)
PAIR = workloads.cluster(gpus_per_node=2)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Collectives:
    """The table in the place of every card's, between two GPUs."""
    monkeypatch.setattr(
        communication, "collectives_of", lambda gpu, ranks: TABLE if ranks == TABLE.ranks else None
    )
    return TABLE


def test_what_lies_between_and_beyond_the_sizes() -> None:
    assert TABLE.seconds(Collective.ALL_GATHER, 1e6) == pytest.approx(30e-6)
    between = TABLE.seconds(Collective.ALL_GATHER, sqrt(1e6 * 1e9))
    assert between == pytest.approx(sqrt(30e-6 * 2e-3))
    assert TABLE.seconds(Collective.ALL_GATHER, 1) == pytest.approx(20e-6)
    assert TABLE.seconds(Collective.ALL_GATHER, 3e9) == pytest.approx(6e-3)


@given(st.sampled_from(Collective), st.floats(1, 1e12), st.floats(1, 100))
def test_more_bytes_never_take_less_time(kind: Collective, size: float, more: float) -> None:
    """Not even where the table has noise, as that of the reductions has."""
    assert TABLE.seconds(kind, size) <= TABLE.seconds(kind, size * more) * (1 + 1e-9)
    assert TABLE.seconds(Collective.REDUCE_SCATTER, 1) == pytest.approx(20e-6)


def test_every_kind_is_read_where_as_many_gpus_of_a_machine_were_measured(measured: Collectives) -> None:
    assert communication.gather_seconds(1e6, PAIR, 2) == pytest.approx(30e-6)
    assert communication.reduce_scatter_seconds(1e9, PAIR, 2) == pytest.approx(3e-3)
    assert communication.all_reduce_seconds(1e9, PAIR, 2) == pytest.approx(4e-3)
    assert communication.all_to_all_seconds(1e9, PAIR, 2) == pytest.approx(1e-3)
    assert communication.gather_seconds(0, PAIR, 2) == communication.gather_seconds(1e9, PAIR, 1) == 0.0


def test_a_table_holds_neither_between_machines_nor_for_other_numbers_nor_for_a_measured_link(
    measured: Collectives,
) -> None:
    eight = workloads.cluster()
    two_nodes = workloads.cluster(nodes=2)
    link = MeasuredGpu(date="2026-11-23", versions=(), link_bytes_per_s=3e11)
    own: Cluster = replace(PAIR, gpu=replace(PAIR.gpu, measured=link))
    for cluster, ranks, stride in ((eight, 4, 1), (two_nodes, 2, 8), (own, 2, 1)):
        seconds = communication.gather_seconds(1e9, cluster, ranks, stride=stride)
        assert seconds != pytest.approx(2e-3)
    assert communication.gather_seconds(1e9, eight, 2, stride=4) == pytest.approx(2e-3)


def test_no_card_takes_the_links_of_another() -> None:
    assert collectives_of("a100-sxm-80g", 2) is None


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
def test_what_products_and_collectives_lose_to_each_other_is_what_was_recorded(kind: str) -> None:
    table = json.loads((shipped.profiles() / "operators/h100-sxm.json").read_text(encoding="utf-8"))
    seen = table["collectives"][0]["beside_products"][kind]
    assert pytest.approx(seen["product_beside_s"] / seen["product_s"], abs=0.01) == assume.PRODUCT_BESIDE
    assert pytest.approx(seen["exchange_beside_s"] / seen["exchange_s"], abs=0.01) == assume.COLLECTIVE_BESIDE


@given(computing=st.floats(0, 10), gathering=st.floats(0, 10))
def test_both_slow_each_other_down_until_one_of_them_has_ended(computing: float, gathering: float) -> None:
    together = min(assume.PRODUCT_BESIDE * computing, assume.COLLECTIVE_BESIDE * gathering)
    left = (
        computing - together / assume.PRODUCT_BESIDE,
        gathering - together / assume.COLLECTIVE_BESIDE,
    )
    assert side_by_side_seconds(computing, gathering) == pytest.approx(together + max(left))


@given(computing=st.floats(0.001, 10), gathering=st.floats(0, 10), launching=st.floats(0, 10))
def test_what_they_lose_to_each_other_is_a_cause_of_its_own(
    computing: float, gathering: float, launching: float
) -> None:
    span = OverlapTime(
        compute=computing,
        exchange=0.0,
        copies=0.0,
        launch=launching,
        waits=0.0,
        gather=gathering,
        offload=0.0,
        launch_delays_gather=False,
    )
    parts = span.parts()
    alone = max(computing, gathering, launching)
    assert sum(parts.values()) == pytest.approx(max(alone, side_by_side_seconds(computing, gathering)))
    assert sum(parts.values()) - parts["contention"] == pytest.approx(alone)
    assert min(parts.values()) >= 0
