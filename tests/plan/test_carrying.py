"""How long responses may get: at the limit a job fits for certain, one token further it does not."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import workloads
from tests.readings import PathReading
from tests.rules.generate import any_workload
from tuner import memory
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.hardware import Gpu
from tuner.plan.carrying import cap_reach, mean_reach, with_mean
from tuner.rules.case import figures
from tuner.workload import Batching, Phase, Workload

jobs = any_workload()
law = settings(max_examples=25)  # a job is asked about at some ten lengths


def static(sequences: int, *, cap: int = 7680) -> Workload:
    workload = workloads.grpo_7b()
    batching = Batching(dynamic=False, token_budget=1, micro_batch_sequences=sequences)
    update = replace(workload.actor.update, batching=batching)
    return workload.with_batch(max_prompt_tokens=512, max_response_tokens=cap).with_actor(update=update)


def certain(workload: Workload, cap: int) -> bool:
    """Whether a job with another cap fits; an engine that is built for its sequences stays so."""
    longer = workload.with_batch(max_response_tokens=cap)
    if workload.rollout is not None and workload.rollout.max_model_tokens == workload.batch.sequence_tokens:
        longer = longer.with_rollout(max_model_tokens=longer.batch.sequence_tokens)
    return memory.estimate(longer).fits_for_certain()


def on_card(workload: Workload, gpu: Gpu) -> Workload:
    return replace(workload, cluster=replace(workload.cluster, gpu=gpu))


def monotonic(workload: Workload) -> bool:
    """Not where sequences that are padded under a budget are fewer in a micro-batch when they are longer."""
    return all(one.engine.packed or not one.batching.dynamic for one in workload.passes())


# -- the cap ----------------------------------------------------------------------------


def test_the_largest_cap_fits_and_one_token_more_does_not() -> None:
    workload = static(8, cap=1024)
    reach = cap_reach(PathReading(workload))
    assert reach is not None and reach.limit is not None and reach.tokens > 1024
    assert certain(workload, reach.tokens) and not certain(workload, reach.tokens + 1)
    beyond = memory.estimate(workload.with_batch(max_response_tokens=reach.tokens + 1))
    assert reach.limit.phase is max(beyond.phases, key=lambda phase: phase.interval[1]).phase


def test_the_largest_cap_does_not_go_by_the_one_that_is_set() -> None:
    reaches = {cap_reach(PathReading(static(16, cap=cap))) for cap in (64, 1024, 7680)}
    assert len(reaches) == 1 and None not in reaches


def test_no_cap_fits_where_the_states_alone_do_not() -> None:
    assert cap_reach(PathReading(workloads.grpo_7b(gpus_per_node=1))) is None


def test_caps_end_with_the_positions_of_the_model() -> None:
    workload = static(1)
    reach = cap_reach(PathReading(on_card(workload, replace(workloads.H200, memory_bytes=2**42))))
    assert reach is not None and reach.limit is None
    assert reach.tokens == workload.model.max_positions - 512


def test_caps_end_where_the_engine_ends_sequences() -> None:
    workload = static(1, cap=1024).with_rollout(max_model_tokens=1200).with_batch(engine_tokens=1200)
    reach = cap_reach(PathReading(workload))
    assert reach is not None and reach.tokens == 1200 - 512


class Refusing(PathReading):
    """A trainer that refuses responses from a length on, and something else whatever they are."""

    def __init__(self, *words: Any, beyond: int, code: str = "CFG998") -> None:
        super().__init__(*words)
        self._beyond, self._code = beyond, code
        codes = ["CFG997"] + [code] * (self.workload.batch.max_response_tokens > beyond)
        self.findings = tuple(map(_refusal, codes))

    def adding(self, overrides: Any) -> "Refusing":
        added = super().adding(overrides)
        reading = Refusing(added.workload, beyond=self._beyond, code=self._code)
        reading._known = self._known
        return reading


def _refusal(code: str) -> Finding:
    rule = Rule(
        code=code,
        name="too-long",
        summary="",
        severity=Severity.ERROR,
        goal=Goal.CORRECTNESS,
        numerics=Numerics.EXACT,
        refuses=True,
    )
    return Finding(rule=rule, message="", severity=Severity.WARNING, evidence=Evidence.EXACT)


@pytest.mark.parametrize("beyond", [700, 1024, 1500])
def test_what_refuses_longer_responses_is_in_their_way(beyond: int) -> None:
    free = cap_reach(PathReading(static(8, cap=1024)))
    assert free is not None and free.tokens > beyond
    reach = cap_reach(Refusing(static(8, cap=1024), beyond=beyond))
    assert reach is not None and reach.limit is not None
    assert (reach.tokens, reach.limit.code, reach.limit.phase) == (beyond, "CFG998", None)


def test_a_step_at_the_limit_has_responses_of_that_length() -> None:
    workload = static(8, cap=1024)
    reach = cap_reach(PathReading(workload))
    assert reach is not None
    lengths = replace(workload.batch.lengths, mean_response=reach.tokens)
    there = workload.with_batch(max_response_tokens=reach.tokens, lengths=lengths)
    assert reach.step.seconds == figures(there).time.seconds > 2 * figures(workload).time.seconds


@law
@given(job=jobs, share=st.floats(0, 1))
def test_every_cap_up_to_the_limit_fits(job: Workload, share: float) -> None:
    assume(monotonic(job))
    reach = cap_reach(PathReading(job))
    if reach is None:
        assert not certain(job, 1)
        return
    shorter = max(1, int(share * reach.tokens))
    assert certain(job, reach.tokens) and certain(job, shorter)
    if reach.limit is not None and not reach.limit.code:
        assert not certain(job, reach.tokens + 1)


@law
@given(job=jobs, more=st.integers(1, 40))
def test_a_larger_card_carries_no_less(job: Workload, more: int) -> None:
    assume(monotonic(job))
    gpu = job.cluster.gpu
    larger = on_card(job, replace(gpu, memory_bytes=gpu.memory_bytes + (more << 30)))
    for reach in (lambda one: cap_reach(PathReading(one)), mean_reach):
        before, after = reach(job), reach(larger)
        if before is not None:
            assert after is not None and after.tokens >= before.tokens


# -- the mean ---------------------------------------------------------------------------


def test_the_largest_mean_fits_and_one_token_more_does_not() -> None:
    workload = static(16)
    assert not memory.estimate(workload).fits_for_certain()
    reach = mean_reach(workload)
    assert reach is not None and reach.limit is not None and 0 < reach.tokens < 7680
    assert reach.limit.phase is Phase.UPDATE_ACTOR
    assert certain(workload, reach.tokens) and not certain(workload, reach.tokens + 1)


def test_prompts_of_a_known_mean_leave_more_to_responses() -> None:
    workload = static(16)
    lengths = replace(workload.batch.lengths, mean_prompt=112)
    full, short = mean_reach(workload), mean_reach(workload.with_batch(lengths=lengths))
    assert full is not None and short is not None
    assert short.tokens == full.tokens + 400


def test_a_job_that_fits_at_its_longest_is_carried_to_its_cap() -> None:
    reach = mean_reach(static(1))
    assert reach is not None and (reach.tokens, reach.limit) == (7680, None)


def test_no_mean_is_certain_where_one_response_at_the_cap_is_too_long() -> None:
    gpu = replace(workloads.H100, memory_bytes=workloads.H100.memory_bytes // 2)
    alone = cap_reach(PathReading(on_card(static(1), gpu)))
    assert alone is not None and alone.limit is not None
    fits, longer = (on_card(static(2, cap=alone.tokens + more), gpu) for more in (0, 1))
    assert mean_reach(fits) is not None and mean_reach(longer) is None
    assert memory.estimate(with_mean(longer, 1000)).fits_for_certain()


def test_no_mean_decides_where_sequences_are_padded() -> None:
    workload = static(16)
    assert mean_reach(workload.with_actor_engine(packed=False)) is None
