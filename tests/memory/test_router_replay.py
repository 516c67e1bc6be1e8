"""Experts that travel with the batch: in which releases, how large, and how long routers hold them."""

import pytest

from tests import workloads
from tests.trainers.launches import ACTOR, MEGATRON, workload_of
from tuner import memory
from tuner.memory.ledger.terms import Term
from tuner.trainers.verl.batch_fields import HELD_BATCH
from tuner.workload import Phase, RouterReplay, Workload

FULL = tuple(
    f"+{ACTOR}.megatron.override_transformer_config.recompute_{name}={value}"
    for name, value in {"granularity": "full", "method": "uniform", "num_layers": 1}.items()
)
EXPERTS = 48 * 8  # sparse layers of Qwen3-30B-A3B, which has no others, and experts per token
TOKENS = 4096  # of the longest sequence

COPIES = HELD_BATCH.copies


def job(mode: str, *more: str, version: str = "0.9.1") -> Workload:
    section = "megatron." if version >= "0.8" else ""
    overrides = (*MEGATRON, f"++{ACTOR}.{section}router_replay.mode={mode}", *more)
    return workload_of(overrides, version, model=workloads.QWEN3_30B_A3B)


def terms(workload: Workload, phase: Phase, moment: str) -> dict[str, Term]:
    found = memory.estimate(workload).phase(phase)
    assert found is not None
    chosen = next(at for at in found.moments if at.name == moment)
    return {term.name: term for term in chosen.terms}


@pytest.mark.parametrize(
    ("version", "mode", "replay"),
    [
        ("0.6.1", "R3", None),
        ("0.7.0", "R2", RouterReplay(from_rollout=False, index_bytes=1, kept_through_step=True)),
        ("0.7.1", "R3", RouterReplay(from_rollout=True, index_bytes=4, kept_through_step=True)),
        ("0.8.0", "R3", RouterReplay(from_rollout=True, index_bytes=4)),
        ("0.9.0", "R2", RouterReplay(from_rollout=False, index_bytes=1)),
        ("0.9.0", "R3", RouterReplay(from_rollout=True, index_bytes=8)),
        ("0.9.1", "R3", RouterReplay(from_rollout=True, index_bytes=2)),
        ("0.9.1", "disabled", None),
    ],
)
def test_what_each_release_replays(version: str, mode: str, replay: RouterReplay | None) -> None:
    assert job(mode, version=version).actor.replay == replay


def test_a_dense_model_has_nothing_to_replay() -> None:
    assert workload_of((*MEGATRON, f"{ACTOR}.megatron.router_replay.mode=R3"), "0.9.1").actor.replay is None


def test_routers_hold_the_micro_batch_they_compute_again() -> None:
    """Eight GPUs in fours: two ranks with 512 of the 1024 sequences of a mini-batch, a budget of four."""
    found = terms(job("R2", *FULL), Phase.UPDATE_ACTOR, "layer_backward")
    assert found["router_routes"].bytes == 8 * 4 * TOKENS * EXPERTS // 4
    assert found["batch_routes"].bytes == 2 * 4 * TOKENS * EXPERTS


def test_without_recomputation_they_hold_every_micro_batch_of_the_update() -> None:
    none = "actor_rollout_ref.model.enable_gradient_checkpointing=True"  # which Megatron does not read
    found = terms(job("R2", none), Phase.UPDATE_ACTOR, "layer_backward")
    assert found["router_routes"].bytes == 8 * 512 * TOKENS * EXPERTS // 4


def test_log_probabilities_replay_the_rollout_or_record() -> None:
    replayed, recorded = (
        terms(job(mode, *FULL), Phase.OLD_LOG_PROB, "layer_forward") for mode in ("R3", "R2")
    )
    assert replayed["router_routes"].bytes == 8 * 2048 * TOKENS * EXPERTS // 4
    assert recorded["router_routes"].bytes == 8 * 4 * TOKENS * EXPERTS // 4


def test_old_workers_hold_them_while_the_optimizer_steps() -> None:
    kept, freed = (
        terms(job("R2", version=version), Phase.UPDATE_ACTOR, "optimizer_step")
        for version in ("0.7.1", "0.8.0")
    )
    assert kept["router_routes"].bytes == 8 * 512 * TOKENS * EXPERTS // 4
    assert "router_routes" not in freed


def test_the_reference_knows_nothing_of_them() -> None:
    assert "router_routes" not in terms(job("R3"), Phase.REF_LOG_PROB, "layer_forward")


def test_the_controller_holds_them_with_the_batch() -> None:
    found = {term.name: term for term in memory.estimate(job("R3")).host_terms}
    assert found["controller_routes"].bytes == COPIES[1] * 4096 * TOKENS * EXPERTS * 2
    assert "controller_routes" not in {term.name for term in memory.estimate(job("disabled")).host_terms}
