"""What engines keep on the card between passes, and what a pass leaves behind."""

import pytest
from msgspec.structs import replace

from tests.memory.measured import VERL_FSDP_MORE
from tests.workloads import (
    QWEN25_0_5B,
    QWEN25_7B,
    fsdp_engine,
    grpo_7b,
    grpo_32b_megatron,
    grpo_lora_7b,
    megatron_engine,
    ppo_7b,
)
from tuner import memory
from tuner.accuracy import MeasuredCase, read_measured, workload_of
from tuner.dtypes import DType
from tuner.memory.fsdp.weights_left_gathered import left_gathered, left_gathered_parameters
from tuner.memory.ledger.recorded_numbers import RecordedNumber, recorded_workload
from tuner.memory.residents import Residents, states_of
from tuner.memory.weight_sync.transfer import trainer_while_sending
from tuner.units import MIB
from tuner.workload import Backend, Engine, Phase, Workload

ROOT = QWEN25_7B.embedding_parameters + QWEN25_7B.head_parameters + QWEN25_7B.norm_parameters
WHOLE = QWEN25_7B.parameters
# FSDP2 has a unit of its own for an embedding that nothing shares.
ROOT_OF_SECOND = QWEN25_7B.head_parameters + QWEN25_7B.norm_parameters
FIRST, SECOND = Backend.FSDP, Backend.FSDP2


def engine_of(backend: Backend, *, gpus: int = 8, **changes: bool | DType) -> Engine:
    return replace(fsdp_engine(gpus=gpus, backend=backend), **changes)


@pytest.mark.parametrize(
    ("engine", "left"),
    [
        (engine_of(SECOND), 0),
        (engine_of(SECOND, keeps_root=True), ROOT_OF_SECOND),
        (engine_of(SECOND, keeps_root=True, frees_root=True), 0),
        (engine_of(SECOND, reshard_after_forward=False), WHOLE),
        (engine_of(SECOND, reshard_after_forward=False, frees_root=True), WHOLE - ROOT_OF_SECOND),
        (engine_of(SECOND, reshard_after_forward=False, param_offload=True), 0),
        (engine_of(SECOND, reshard_after_forward=False, streamed_offload=True), WHOLE),
        (
            engine_of(SECOND, reshard_after_forward=False, frees_root=True, separate_embedding_units=True),
            WHOLE - QWEN25_7B.norm_parameters,
        ),
        (engine_of(FIRST), ROOT),
        (engine_of(FIRST, frees_root=True), 0),
        (engine_of(FIRST, param_offload=True), ROOT),
        (engine_of(FIRST, reshard_after_forward=False), WHOLE),
        (engine_of(FIRST, reshard_after_forward=False, frees_root=True), WHOLE - ROOT),
        (engine_of(FIRST, gpus=1), 0),
        (engine_of(FIRST, gpus=1, reshard_after_forward=False), 0),
        (engine_of(FIRST, gpus=1, streamed_offload=True), 0),
        (engine_of(FIRST, gpus=1, streamed_offload=True, stored_dtype=DType.BFLOAT16), WHOLE),
        (engine_of(FIRST, gpus=1, param_offload=True, stored_dtype=DType.BFLOAT16), 0),
        (megatron_engine(gpus=8, tensor=2), 0),
    ],
)
def test_what_a_forward_only_pass_leaves_gathered(engine: Engine, left: int) -> None:
    assert left_gathered_parameters(QWEN25_7B, engine) == left
    term = left_gathered(QWEN25_7B, engine, "actor")
    assert (0 if term is None else term.bytes) == 2 * left


def test_a_tied_root_is_one_matrix_and_the_final_norm() -> None:
    left = left_gathered_parameters(QWEN25_0_5B, engine_of(FIRST))
    assert left == 151936 * 896 + 896


def _with(workload: Workload, phase: Phase) -> dict[str, int]:
    found = memory.estimate(workload).phase(phase)
    assert found is not None
    terms = {term.name: term.bytes for term in found.peak.terms}
    for moment in found.moments:
        assert {name: terms[name] for name in terms if name.endswith("_gathered")} == {
            term.name: term.bytes for term in moment.terms if term.name.endswith("_gathered")
        }
    return terms


def _phases(workload: Workload, term: str) -> set[Phase]:
    return {phase.phase for phase in memory.estimate(workload).phases if term in _with(workload, phase.phase)}


def test_the_actors_weights_stay_whole_until_its_update_frees_them() -> None:
    workload = ppo_7b().with_actor_engine(backend=FIRST)
    assert _phases(workload, "actor_gathered") == {Phase.REF_LOG_PROB, Phase.VALUES, Phase.UPDATE_CRITIC}
    assert _with(workload, Phase.VALUES)["actor_gathered"] == 2 * ROOT
    whole = workload.with_actor_engine(backend=SECOND, reshard_after_forward=False)
    assert _with(whole, Phase.UPDATE_CRITIC)["actor_gathered"] == 2 * WHOLE
    # Where it works itself, the same weights are its own pass's.
    assert _with(whole, Phase.OLD_LOG_PROB)["unsharded_model"] == 2 * WHOLE


def test_an_actor_that_computes_no_log_probabilities_leaves_nothing() -> None:
    workload = ppo_7b().with_actor_engine(backend=FIRST).with_actor(log_prob=None)
    assert _phases(workload, "actor_gathered") == set()


def test_an_actor_that_is_its_own_reference_leaves_its_root_for_the_critic() -> None:
    workload = replace(grpo_lora_7b(), critic=ppo_7b().critic).with_actor_engine(backend=FIRST)
    reference = replace(workload.actor.engine)
    workload = workload.with_actor(log_prob=None).with_reference(engine=reference, separate=False)
    assert _phases(workload, "actor_gathered") == {Phase.VALUES, Phase.UPDATE_CRITIC}


def test_a_reference_leaves_its_root_for_good() -> None:
    workload = grpo_7b()
    assert workload.reference is not None
    engine = replace(workload.reference.engine, backend=FIRST)
    workload = workload.with_reference(engine=engine)
    others = {phase.phase for phase in memory.estimate(workload).phases} - {Phase.REF_LOG_PROB}
    assert _phases(workload, "reference_gathered") == others
    assert {Phase.ROLLOUT, Phase.WAKE_UP} <= others


def test_a_reference_that_is_not_offloaded_is_always_there() -> None:
    workload = grpo_32b_megatron()
    assert workload.reference is not None
    kept = workload.with_reference(engine=replace(workload.reference.engine, param_offload=False))
    every = {phase.phase for phase in memory.estimate(kept).phases}
    assert _phases(kept, "reference_parameters") == every
    assert _phases(workload, "reference_parameters") == {Phase.REF_LOG_PROB}


def test_before_the_first_pass_there_are_weights_alone() -> None:
    workload = ppo_7b().with_actor_engine(backend=FIRST)
    names = [term.name for term in Residents.of(workload).at_start if term.bytes]
    assert names == ["actor_parameters", "critic_parameters", "trainer_context", "communicators"]


def test_a_recorded_workload_is_not_taken_for_the_plain_one() -> None:
    """One remembers what its numbers were computed from, the other does not."""
    workload = grpo_7b()
    recorded = recorded_workload(workload)
    assert recorded != workload
    for job, remembers in ((workload, False), (recorded, True)):
        count = dict(Residents.of(job).actor.parameters.symbols)["N"]
        assert isinstance(count, RecordedNumber) is remembers


ALONE = engine_of(FIRST, gpus=1, param_offload=True)


@pytest.mark.parametrize(
    ("engine", "idle", "at_start"),
    [
        (ALONE, False, True),
        (replace(ALONE, stored_dtype=DType.BFLOAT16), True, True),
        (replace(ALONE, backend=SECOND, stored_dtype=DType.BFLOAT16), False, False),
        (engine_of(FIRST, gpus=2, param_offload=True, stored_dtype=DType.BFLOAT16), False, False),
        (replace(ALONE, param_offload=False), True, True),
    ],
)
def test_modules_of_one_gpu_hold_offloaded_weights(engine: Engine, idle: bool, at_start: bool) -> None:
    """From the engine's construction on; a forward pass lets go of them where it casts them."""
    states = states_of(QWEN25_7B, engine, "actor")
    assert (states.parameters in states.idle) is idle
    assert (states.parameters in states.at_start) is at_start
    sync = replace(grpo_7b().sync, offloads_first=True, stages_weights=False)
    assert (states.parameters in trainer_while_sending(states, sync)) is idle


def test_a_fetched_reference_stays_from_construction_on() -> None:
    workload = grpo_7b()
    assert workload.reference is not None
    engine = engine_of(FIRST, gpus=1, streamed_offload=True, stored_dtype=DType.BFLOAT16)
    workload = workload.with_reference(engine=engine)
    others = {phase.phase for phase in memory.estimate(workload).phases} - {Phase.REF_LOG_PROB}
    assert _phases(workload, "reference_gathered") == others
    held = {term.name: term.bytes for term in Residents.of(workload).at_start}
    assert held["reference_gathered"] == 2 * WHOLE
    assert _with(workload, Phase.REF_LOG_PROB)["unsharded_model"] == 2 * WHOLE


RECORDED = [
    case
    for case in read_measured(VERL_FSDP_MORE).cases
    if case.strategy == "fsdp" and case.forward_only_engine
]


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case.tokens}-{case.calculate_entropy}")
def test_the_root_that_a_recorded_reference_held_between_passes(case: MeasuredCase) -> None:
    """Nothing else of it is on the card but a cuBLAS workspace."""
    workload = workload_of(case)
    left = left_gathered(workload.model, workload.actor.engine, "reference")
    assert left is not None
    assert 0 <= case.allocated_before_bytes - left.bytes <= 40 * MIB
