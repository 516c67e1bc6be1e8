"""Seconds of the host: by engine, by ranks of a machine, beside cards that were measured and others."""

from statistics import mean

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner.timing import host
from tuner.timing.assumptions import LAYER_KERNELS, NORM_KERNELS
from tuner.timing.host import host_of_experts, host_of_optimizer, host_seconds
from tuner.timing.job import TimedPasses, kernels_seconds
from tuner.timing.operators import operators_of
from tuner.workload import Checkpointing, Workload

ENGINES = ("plain", "fsdp", "fsdp2")
MEASURED = ("h100-sxm", "h200-sxm")
CARDS = (*MEASURED, "a100-sxm-80g")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("ranks", [1, 2, 8])
@pytest.mark.parametrize("gpu", CARDS)
def test_the_host_needs_more_with_hooks_gradients_and_recomputation(
    gpu: str, ranks: int, engine: str
) -> None:
    bare = host_seconds(gpu, engine, query_key_norms=False, ranks=ranks)
    assert 0.3e-3 < bare.forward_s < bare.kept_s < bare.recomputed_s < 40e-3
    assert bare.forward_s >= host_seconds(gpu, "plain", query_key_norms=False, ranks=ranks).forward_s
    for recomputes, whole in ((True, bare.recomputed_s), (False, bare.kept_s)):
        halves = [bare.half(recomputes=recomputes, backward=backward) for backward in (False, True)]
        assert sum(halves) == pytest.approx(whole)
        assert all(0.1 * whole < half for half in halves)


@pytest.mark.parametrize("engine", ["fsdp", "fsdp2"])
@pytest.mark.parametrize("gpu", CARDS)
def test_the_host_needs_no_less_for_a_layer_that_several_ranks_share(gpu: str, engine: str) -> None:
    alone, shared, of_a_node = (
        host_seconds(gpu, engine, query_key_norms=False, ranks=ranks) for ranks in (1, 2, 8)
    )
    assert shared.forward_s >= alone.forward_s
    assert shared.recomputed_s >= alone.recomputed_s
    assert shared.kept_s >= alone.kept_s
    assert of_a_node == shared


def test_the_typical_host_is_the_mean_of_the_machines_that_told_it() -> None:
    rows = [
        [row for row in machine.host if (row.engine, row.query_key_norms, row.ranks) == ("fsdp2", False, 1)]
        for machine in operators_of("h100-sxm").machines
    ]
    assert len(rows) == 4
    typical = host_seconds("h100-sxm", "fsdp2", query_key_norms=False, ranks=1)
    for name, seconds in (
        ("forward_s", typical.forward_s),
        ("forward_backward_s", typical.recomputed_s),
        ("kept_s", typical.kept_s),
    ):
        told = [[getattr(row, name) for row in machine] for machine in rows]
        means = [mean(machine) for machine in told if None not in machine]
        assert seconds == pytest.approx(mean(means))
        assert min(means) < seconds < max(means)


def test_norms_that_were_not_measured_are_more_kernels_of_a_plain_layer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = operators_of("h100-sxm")
    assert not any(row.query_key_norms for row in table.host)
    monkeypatch.setattr(host, "operators_of", lambda gpu: replace(table, host_on_other_machines=()))
    kinds = [("fsdp2", True), ("fsdp2", False), ("plain", False)]
    unkept = host_seconds.__wrapped__
    normed, bare, plain = (
        unkept("h100-sxm", engine, query_key_norms=norms, ranks=1).kept_s for engine, norms in kinds
    )
    assert normed == pytest.approx(bare + 2 * NORM_KERNELS / LAYER_KERNELS * plain)


def test_a_card_without_a_table_of_its_own_takes_one_host() -> None:
    for ranks in (1, 2):
        there, here = (
            host_seconds(gpu, "fsdp2", query_key_norms=True, ranks=ranks) for gpu in ("h20-sxm", "h200-sxm")
        )
        assert there == here
        assert host_of_optimizer("h20-sxm", "fsdp2", ranks=ranks) == host_of_optimizer(
            "h200-sxm", "fsdp2", ranks=ranks
        )


def job(workload: Workload, *, trains: bool = True) -> TimedPasses:
    step_pass = replace(workload.actor_update, training=trains)
    return TimedPasses(cluster=workload.cluster, batch=workload.batch, step_pass=step_pass)


def test_the_host_launches_a_layer_runs_fsdps_hooks_and_recomputes() -> None:
    workload = workloads.grpo_7b()
    measured = host_seconds(
        workload.cluster.gpu.name, "fsdp2", query_key_norms=False, ranks=workload.cluster.gpus
    )
    assert kernels_seconds(job(workload, trains=False), backward=False) == measured.forward_s
    for checkpointing, recomputes in ((Checkpointing.FULL, True), (Checkpointing.NONE, False)):
        update = job(workload.with_actor_engine(checkpointing=checkpointing))
        for backward in (False, True):
            half = measured.half(recomputes=recomputes, backward=backward)
            assert kernels_seconds(update, backward=backward) == half


def test_experts_that_run_one_after_the_other_keep_the_host_busy() -> None:
    together, looped = (
        job(workloads.grpo_moe_30b().with_actor_engine(loops_experts=loops), trains=False)
        for loops in (False, True)
    )
    more = kernels_seconds(looped, backward=False) - kernels_seconds(together, backward=False)
    gpu, ranks = looped.cluster.gpu.name, looped.cluster.gpus
    of_one, of_all = (
        host_of_experts(gpu, grouped=grouped, ranks=ranks).forward_s for grouped in (False, True)
    )
    assert more == pytest.approx(128 * of_one - of_all)
    assert 20e-6 < of_one < 500e-6


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("gpu", CARDS)
def test_experts_keep_the_host_busy_in_both_halves_of_a_pass(gpu: str, ranks: int) -> None:
    """And more in the half that recomputes them."""
    experts = host_of_experts(gpu, grouped=True, ranks=ranks)
    for recomputes in (False, True):
        forward, backward = (experts.half(recomputes=recomputes, backward=half) for half in (False, True))
        assert forward > 0 and backward > 0
    kept, recomputed = (experts.half(recomputes=recomputes, backward=True) for recomputes in (False, True))
    assert kept < recomputed


def test_a_table_of_one_rank_alone_has_several_ranks_by_those_beside_the_h200(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As ``measure.operators`` writes it on one GPU; an older one does not tell the halves of passes."""
    table = operators_of("h100-sxm")
    rows = tuple(
        replace(row, first_half_of_kept_s=None, first_half_of_forward_backward_s=None)
        for row in table.host
        if row.ranks == 1
    )
    own = replace(table, host=rows, host_optimizer=(), host_on_other_machines=())
    measured = host.operators_of
    monkeypatch.setattr(host, "operators_of", lambda gpu: own if gpu == "h100-sxm" else measured(gpu))
    for function in (host_seconds, host_of_optimizer):
        function.cache_clear()
    try:
        for engine in ENGINES:
            alone, shared = (
                host_seconds("h100-sxm", engine, query_key_norms=True, ranks=ranks) for ranks in (1, 8)
            )
            there = [host_seconds("h200-sxm", engine, query_key_norms=True, ranks=ranks) for ranks in (1, 8)]
            assert shared.kept_s == pytest.approx(alone.kept_s * there[1].kept_s / there[0].kept_s)
            assert 0 < alone.half(recomputes=True, backward=False) < alone.recomputed_s
        for ranks in (1, 8):
            assert host_of_optimizer("h100-sxm", "fsdp2", ranks=ranks) == pytest.approx(
                host_of_optimizer("h200-sxm", "fsdp2", ranks=ranks)
            )
    finally:
        for function in (host_seconds, host_of_optimizer):
            function.cache_clear()
