"""A module for multi-token prediction is left out, and in the upper end."""

import pytest

from tests.trainers.launches import ACTOR, MEGATRON, MODEL, workload_of
from tests.workloads import QWEN25_7B
from tuner import memory
from tuner.memory import PhaseEstimate
from tuner.workload import Phase, Workload

BUILT = f"{MODEL}.mtp.enable=True"
TRAINED = f"{MODEL}.mtp.enable_train=True"


def phase(workload: Workload, which: Phase = Phase.UPDATE_ACTOR) -> PhaseEstimate:
    found = memory.estimate(workload).phase(which)
    assert found is not None
    return found


def job(*more: str, version: str = "0.9.1") -> Workload:
    return workload_of((*MEGATRON, *more), version)


def module() -> int:
    """One of 7B on one of four tensor-parallel ranks: a layer's 233 million parameters and two H squared."""
    layer = QWEN25_7B.layer_parameters(0)
    return -(-(layer - 2 * 3584 + 2 * 3584**2) // 4) + 5 * 3584


def test_nothing_of_it_is_counted_and_the_upper_end_has_it() -> None:
    without, built, trained = phase(job()), phase(job(BUILT)), phase(job(BUILT, TRAINED))
    assert without.peak_bytes == built.peak_bytes == trained.peak_bytes
    states = built.interval[1] - without.interval[1]
    actor, reference = 2 + 4 + 12 // 2, 2  # two ranks share the optimizer states
    assert states == pytest.approx((actor + reference) * module(), rel=1e-3)
    logits = 12 * 16384 * 152064 // 4
    assert logits < trained.interval[1] - built.interval[1] < 1.4 * logits


def test_it_may_take_something_in_every_phase() -> None:
    for before, after in zip(memory.estimate(job()).phases, memory.estimate(job(BUILT)).phases, strict=True):
        assert after.interval[0] == before.interval[0]
        assert after.interval[1] > before.interval[1]


def test_only_the_last_stage_has_it() -> None:
    pipeline = tuple(f"{role}.megatron.pipeline_model_parallel_size=2" for role in (ACTOR,))
    found = phase(job(BUILT, TRAINED, *pipeline))
    assert {moment.name.partition("_")[2][:1] for moment in found.moments} >= {"0", "1"}
    for moment in found.moments:
        has = any("mtp" in term.name for term in moment.terms)
        assert has == moment.name.startswith("stage_1")


@pytest.mark.parametrize(("version", "reference"), [("0.7.0", None), ("0.7.1", False), ("0.8.0", True)])
def test_which_models_have_it_in_each_release(version: str, reference: bool | None) -> None:
    found = job(f"++{BUILT}", f"++{TRAINED}", version=version)
    engine = found.actor.engine
    assert (engine.mtp_module, engine.mtp_trained) == (reference is not None,) * 2
    assert found.reference is not None
    assert found.reference.engine.mtp_module is bool(reference)
