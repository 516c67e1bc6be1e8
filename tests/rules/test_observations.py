"""The signs of a run beside its model, each just where it begins to be one."""

from math import ceil, floor
from typing import Any

import pytest
from msgspec.structs import replace

from tests.readings import advice_of
from tests.tables import bases, scene
from tests.workloads import grpo_7b
from tuner.advise import Advice
from tuner.advise.expected import expected_passes
from tuner.advise.observations import Sign, observations
from tuner.workload import Phase
from tuner.workload.observed_run import ObservedRun, PeakMemory, PhasePeak

ADVICE = advice_of(grpo_7b(), [])
ROLLOUT, OLD, UPDATE = Phase.ROLLOUT, Phase.OLD_LOG_PROB, Phase.UPDATE_ACTOR


def signs(advice: Advice = ADVICE, **reported: Any) -> dict[tuple[Sign, Phase | None], float]:
    run = ObservedRun(first_step=2, last_step=6, steps=5, **reported)
    return {(sign.sign, sign.phase): sign.value for sign in observations(advice, run).signs}


def modelled(phase: Phase) -> tuple[float, float]:
    """Modelled seconds of a phase, and the high end of their interval."""
    found = observations(ADVICE, ObservedRun(first_step=1, last_step=1, steps=1)).phases
    (one,) = (one for one in found if one.phase is phase)
    assert one.modelled is not None
    return one.modelled.seconds, one.modelled.high_s


def test_the_longest_phase_is_named_with_its_share_of_the_step() -> None:
    found = signs(seconds=((ROLLOUT, 60.0), (UPDATE, 30.0)), step_seconds=100.0)
    assert found[Sign.LONGEST, ROLLOUT] == 0.6
    more = signs(seconds=((ROLLOUT, 60.0), (UPDATE, 130.0)), step_seconds=100.0)
    assert more[Sign.LONGEST, UPDATE] == 1.0
    assert not any(sign is Sign.LONGEST for sign, _ in signs(seconds=((ROLLOUT, 60.0),)))


def test_of_a_single_phase_it_is_not_said_that_it_is_the_longest() -> None:
    tuning = advice_of(scene(bases()["fine-tuning-0.9.1"]).workload, [])
    train = (Phase.TRAIN, 9.0)
    assert [time.phase for time in tuning.time.phases] == [Phase.TRAIN]
    assert (Sign.LONGEST, Phase.TRAIN) not in signs(tuning, seconds=(train,), step_seconds=10.0)
    saved = signs(tuning, seconds=(train, (Phase.SAVE_CHECKPOINT, 3.0)), step_seconds=10.0)
    assert saved[Sign.LONGEST, Phase.TRAIN] == 0.9


def test_what_is_saved_between_steps_is_no_part_of_one() -> None:
    found = signs(seconds=((ROLLOUT, 60.0), (Phase.SAVE_CHECKPOINT, 90.0)), step_seconds=100.0)
    assert found[Sign.LONGEST, ROLLOUT] == 0.6
    assert found[Sign.UNCOUNTED, None] == 0.4


def test_a_phase_is_slower_from_the_high_end_of_its_interval() -> None:
    seconds, high = modelled(UPDATE)
    begins = max(1.5 * seconds, high)
    slower = signs(seconds=((UPDATE, 1.001 * begins),), step_seconds=2 * begins)
    assert slower[Sign.SLOWER, UPDATE] == pytest.approx(1.001 * begins / seconds)
    assert (Sign.SLOWER, UPDATE) not in signs(seconds=((UPDATE, 0.999 * begins),), step_seconds=2 * begins)
    # A tenth of a step, and no less, is worth a word.
    assert (Sign.SLOWER, UPDATE) in signs(seconds=((UPDATE, 2 * begins),), step_seconds=19.99 * begins)
    assert (Sign.SLOWER, UPDATE) not in signs(seconds=((UPDATE, 2 * begins),), step_seconds=20.1 * begins)


@pytest.mark.parametrize(
    ("rest", "names"), [(10.0, ("reward", "adv")), (9.9, None), (40.0, ("reward", "adv"))]
)
def test_what_no_phase_counts_is_a_sign_from_a_tenth_of_the_step(
    rest: float, names: tuple[str, ...] | None
) -> None:
    run = ObservedRun(
        first_step=1,
        last_step=2,
        steps=1,
        seconds=((ROLLOUT, 100.0 - rest),),
        step_seconds=100.0,
        further_seconds=(("adv", 5.0), ("reward", 6.0), ("small", 4.9)),
    )
    found = [sign for sign in observations(ADVICE, run).signs if sign.sign is Sign.UNCOUNTED]
    assert [sign.timers for sign in found] == ([] if names is None else [names])
    assert [sign.value for sign in found] == ([] if names is None else [pytest.approx(rest / 100)])


def test_preemption_cut_responses_and_a_cache_that_stays_idle() -> None:
    assert signs(preemptions=0.01)[Sign.PREEMPTING, None] == 0.01
    assert not signs(preemptions=0.009)
    assert signs(clip_ratio=0.05)[Sign.CUT_RESPONSES, None] == 0.05
    assert not signs(clip_ratio=0.049)
    rollout = ADVICE.rollout
    assert rollout is not None
    used = rollout.running_sequences * ADVICE.workload.batch.mean_sequence_tokens
    idle, filled = (
        replace(ADVICE, rollout=replace(rollout, kv_tokens=tokens))
        for tokens in (ceil(2.01 * used), floor(2 * used))
    )
    assert signs(idle, mean_response_tokens=1.0)[Sign.CACHE_IDLE, None] == pytest.approx(1 / 2.01, rel=1e-3)
    assert not signs(filled, mean_response_tokens=1.0)
    assert not signs(idle)
    assert not signs(replace(ADVICE, rollout=replace(rollout, kv_tokens=0)), mean_response_tokens=1.0)
    assert (Sign.CACHE_IDLE, None) not in signs(idle, mean_response_tokens=1.0, preemptions=1.0)


def peak(phase: Phase, allocated: float) -> PhasePeak:
    return PhasePeak(phase=phase, allocated_bytes=round(allocated), reserved_bytes=round(allocated))


def test_phases_that_took_more_or_the_highest_far_less_than_modelled() -> None:
    update, old = ADVICE.estimate.phase(UPDATE), ADVICE.estimate.phase(OLD)
    assert update is not None
    assert old is not None
    high = update.allocated_high_bytes
    usual = expected_passes(ADVICE.workload)[UPDATE].estimate.allocated_bytes
    found = signs(peaks=(peak(UPDATE, 1.06 * high), peak(OLD, old.allocated_bytes)))
    assert found == {(Sign.MORE_MEMORY, UPDATE): pytest.approx(1.06 * high / usual)}
    assert not signs(peaks=(peak(UPDATE, 1.04 * high),))
    less = signs(peaks=(peak(UPDATE, 0.79 * update.allocated_bytes), peak(OLD, 0.1 * old.allocated_bytes)))
    highest = UPDATE if update.allocated_bytes > old.allocated_bytes else OLD
    assert list(less) == [(Sign.LESS_MEMORY, highest)]
    assert not signs(peaks=(peak(UPDATE, 0.81 * update.allocated_bytes),))


def test_the_counter_of_a_process_counts_the_engine_in_it() -> None:
    phases, rollout = ADVICE.estimate.phases, ADVICE.rollout
    assert rollout is not None
    high = max(phase.allocated_high_bytes for phase in phases)
    usual = max(phase.allocated_bytes for phase in phases)
    engine = rollout.weight_bytes + rollout.kv_bytes
    for holds, rest in ((False, 0), (True, engine)):
        for factor, more in ((1.06, True), (1.04, False)):
            memory = PeakMemory(
                allocated_bytes=round(factor * (high + rest)),
                reserved_bytes=None,
                holds_engine=holds,
                taken="",
            )
            found = signs(memory=memory)
            assert ((Sign.MORE_MEMORY, None) in found) is more
            if more:
                assert found[Sign.MORE_MEMORY, None] == pytest.approx(factor * (high + rest) / (usual + rest))
