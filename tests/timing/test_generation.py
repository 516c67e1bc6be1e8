"""The simulated engine: what goes in comes out, and what it waits for is what its scheduler waits for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests import workloads
from tuner.timing import assumptions, step_time
from tuner.timing.decode import RolloutInput
from tuner.timing.generation.load import Load
from tuner.timing.generation.rollout import EngineHost, generation, rollout_seconds, waiting_for
from tuner.timing.generation.simulation import as_far_as_decides, simulate
from tuner.timing.generation.step import decode_step_parts, step_prices
from tuner.timing.spreads import ENDS
from tuner.timing.uncertainty import interval
from tuner.workload import Lengths, Phase, RolloutEngine, Workload

pytestmark = pytest.mark.sampled(6)

GROUPS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 300)), min_size=1, max_size=12)


@st.composite
def loads(draw: st.DrawFn) -> Load:
    step_tokens = draw(st.integers(1, 600))
    return Load(
        responses=tuple(draw(GROUPS)),
        prompt_tokens=draw(st.floats(1, 400)),
        held_prompt=draw(st.floats(1, 200)),
        new_prompt=draw(st.floats(1, 400)),
        cache_tokens=draw(st.floats(1, 20_000)),
        max_sequences=min(step_tokens, draw(st.integers(1, 200))),
        step_tokens=step_tokens,
        chunked=draw(st.booleans()),
        keeps_blocks=draw(st.booleans()),
        reserved_tokens=draw(st.sampled_from([0, 300])),
    )


@settings(max_examples=150, deadline=None)
@given(load=loads())
def test_every_token_is_generated_once(load: Load) -> None:
    done = simulate(load)
    assert done.tokens == pytest.approx(load.response_tokens)
    assert 1 <= done.most_running <= min(load.max_sequences, load.sequences)
    assert done.steps >= max(length for _, length in load.responses)
    assert all(stretch.steps > 0 and stretch.decoding <= done.most_running for stretch in done.stretches)
    computed = sum(stretch.steps * stretch.prompt_tokens for stretch in done.stretches)
    admissions = load.sequences + done.preempted
    assert computed == pytest.approx(admissions * load.new_prompt + done.recomputed_tokens)
    assert (done.recomputed_tokens > 0) <= (done.preempted > 0)
    fits = sum(count * (load.held_prompt + length + 1) for count, length in load.responses)
    roomy = simulate(structs.replace(load, cache_tokens=2 * fits))
    assert not roomy.preempted and not roomy.recomputed_tokens


@settings(max_examples=100, deadline=None)
@given(load=loads(), caches=st.lists(st.floats(1, 40_000), min_size=1, max_size=4))
def test_a_cache_that_makes_no_difference_is_simulated_once_and_as_it_is(
    load: Load, caches: list[float]
) -> None:
    """Whatever was asked before: what is shared is what the engine does with its own cache."""
    shared: list[Load] = []
    for cache in caches:
        own = structs.replace(load, cache_tokens=cache)
        decides = as_far_as_decides(own)
        expected, done = simulate(own), simulate(decides)
        assert done.stretches == expected.stretches
        assert done.recomputed_tokens == pytest.approx(expected.recomputed_tokens)
        if decides != own:
            assert not expected.refused and cache >= expected.enough_tokens
            shared.append(decides)
    assert len(set(shared)) <= 1


@pytest.mark.parametrize(("reserved", "longest"), [(0, 100), (60, 100), (500, 500)])
def test_a_cache_holds_all_sequences_at_their_longest_twice(reserved: int, longest: int) -> None:
    """A prompt, a response or what is kept for one, and the token that is computed next, of each."""
    load = Load(
        responses=((3, 100), (2, 40)),
        prompt_tokens=10,
        new_prompt=10,
        held_prompt=10,
        max_sequences=8,
        step_tokens=4096,
        cache_tokens=10.0**6,
        reserved_tokens=reserved,
    )
    assert as_far_as_decides(load).cache_tokens == 2 * (3 + 2) * (10 + longest + 1)


@given(count=st.integers(1, 256), length=st.integers(1, 3000), prompt=st.integers(1, 30))
def test_equal_lengths_that_all_fit_take_a_step_for_each_token(count: int, length: int, prompt: int) -> None:
    load = Load(
        responses=((count, length),),
        prompt_tokens=prompt,
        held_prompt=prompt,
        new_prompt=prompt,
        cache_tokens=1e9,
        max_sequences=256,
        step_tokens=8192,
    )
    done = simulate(load)
    assert done.steps == length and done.most_running == count
    seen = sum(stretch.steps * stretch.decoding * stretch.context for stretch in done.stretches)
    assert seen == pytest.approx(count * sum(prompt + at for at in range(1, length)))


def test_the_seconds_of_equal_lengths_are_those_of_their_steps() -> None:
    longest = workloads.grpo_7b().batch.max_response_tokens
    workload = knowing(response=longest, p95=longest).with_rollout(
        max_sequences=256, prefix_caching=False, overlaps_scheduling=False
    )
    inputs = RolloutInput.of(workload.with_batch(prompts=64, max_prompt_tokens=32))
    assert generation(inputs, concurrent_sequences=10_000).most_running == 128
    parts = rollout_seconds(inputs, concurrent_sequences=10_000).parts
    step = decode_step_parts(inputs, 128)  # in the middle of the response
    first = step_prices(inputs).parts(decoding=0, context=0, sampled=128, prompt_tokens=128 * 16)
    expected = (longest - 1) * sum(step.values()) + sum(first)
    assert sum(parts.values()) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("job", [workloads.grpo_7b(), workloads.grpo_moe_30b()])
def test_a_memory_fraction_decides_seconds_by_what_the_cache_holds_alone(job: Workload) -> None:
    told = RolloutInput.of(job)
    assert told.rollout.memory_fraction != job.generator.memory_fraction
    for held in (1, 30, 5000):
        as_it_is = rollout_seconds(structs.replace(told, rollout=job.generator), concurrent_sequences=held)
        assert rollout_seconds(told, concurrent_sequences=held).parts == as_it_is.parts


def host_of(*stretches: tuple[float, float, float, float], overlaps: bool) -> EngineHost:
    """A host by rows: steps, and seconds of one: the GPU's, of launching its kernels, of preparing it."""
    steps, gpu, launch, prepare = zip(*stretches, strict=True)
    return EngineHost(overlaps=overlaps, steps=steps, gpu_s=gpu, launch_s=launch, prepare_s=prepare)


def test_a_host_that_the_gpu_hides_is_waited_for_once_it_is_slower() -> None:
    beside = host_of((10, 2e-3, 0.0, 1e-3), (5, 2e-3, 0.0, 3e-3), overlaps=True)
    waited = [waiting_for(beside, 1.0, times) for times in (0.5, 1.0, 2.0, 3.0)]
    assert waited == pytest.approx([0.0, 5e-3, 20e-3, 10e-3 + 35e-3])
    launched = host_of((10, 2e-3, 1.5e-3, 1e-3), overlaps=True)
    waited = [waiting_for(launched, times, 1.0) for times in (0.5, 1.0, 2.0)]
    assert waited == pytest.approx([0.0, 5e-3, 20e-3])
    after = host_of((10, 2e-3, 1.5e-3, 1e-3), overlaps=False)
    waited = [waiting_for(after, times, 1.0) for times in (0.5, 1.0, 2.0)]
    assert waited == pytest.approx([10e-3, 10e-3, 20e-3])


def test_the_interval_of_a_rollout_has_what_a_slow_host_adds_behind_the_gpu() -> None:
    job = knowing(response=1400).with_rollout(max_sequences=96, tensor_parallel=1)
    rollout = step_time(job, concurrent_sequences=96).phases[0]
    assert rollout.phase is Phase.ROLLOUT and dict(rollout.parts)["engine"] == 0.0
    slowest = ENDS["ENGINE_SEQUENCE_S"][1] / assumptions.ENGINE_SEQUENCE_S
    assert rollout.beside_host(1.0, slowest) > 1.05 * rollout.seconds
    assert rollout.beside_host(1.0) == pytest.approx(rollout.seconds)  # what was asked before is no answer
    assert rollout.beside_host(1.0, slowest) > 1.05 * rollout.seconds
    assert rollout.engine is not None
    idle = structs.replace(rollout.engine, prepare_s=(0.0,) * len(rollout.engine.steps), step_s=0.0)
    unaware = structs.replace(rollout, engine=idle)
    assert interval([rollout], job.cluster).high_s > interval([unaware], job.cluster).high_s


def knowing(prompt: int = 64, response: int = 400, p95: int | None = None) -> Workload:
    lengths = Lengths(mean_prompt=prompt, mean_response=response, response_p95=p95)
    return workloads.grpo_7b().with_batch(lengths=lengths)


def seconds(workload: Workload, held: int) -> float:
    return sum(rollout_seconds(RolloutInput.of(workload), concurrent_sequences=held).parts.values())


@settings(max_examples=30, deadline=None)
@given(
    response=st.integers(50, 1400),
    longer=st.integers(0, 1400),
    prompts=st.sampled_from([64, 200, 512, 1500]),
    held=st.integers(16, 1024),
    most=st.sampled_from([64, 256, 512]),
)
def test_more_and_longer_responses_never_end_sooner(
    response: int, longer: int, prompts: int, held: int, most: int
) -> None:
    """By more than events that are put together may cost."""
    base = knowing(response=response).with_rollout(max_sequences=most).with_batch(prompts=prompts)
    room = held * base.batch.room_tokens
    before = seconds(base, held)
    more = base.with_batch(prompts=2 * prompts)
    assert seconds(more, held) >= before * 0.985
    lengths = structs.replace(base.batch.lengths, mean_response=response + longer)
    taller = base.with_batch(lengths=lengths)
    same_cache = room // taller.batch.room_tokens  # rounded down: never more of it
    if same_cache:
        assert seconds(taller, same_cache) >= before * 0.985


def test_sglang_keeps_room_for_what_may_come() -> None:
    """Where vLLM admits what has room now and preempts, SGLang admits fewer."""
    greedy = knowing(response=1500).with_rollout(max_sequences=512)
    careful = greedy.with_rollout(engine=RolloutEngine.SGLANG)
    first, second = (generation(RolloutInput.of(each), concurrent_sequences=16) for each in (greedy, careful))
    assert first.most_running > second.most_running
    assert first.preempted > second.preempted


def test_preempted_sequences_find_their_blocks_again_with_prefix_caching() -> None:
    kept = Load(
        responses=tuple((8, 500 + 37 * index % 300) for index in range(24)),
        prompt_tokens=20,
        held_prompt=20,
        new_prompt=20,
        cache_tokens=40_000,
        max_sequences=256,
        step_tokens=8192,
    )
    lost = simulate(structs.replace(kept, keeps_blocks=False))
    assert 0 < simulate(kept).recomputed_tokens < lost.recomputed_tokens


def test_an_engine_with_many_waves_goes_on_as_it_did() -> None:
    """A part of the sequences is simulated, and the tokens of the others follow at the same pace."""
    few = knowing(response=500).with_rollout(max_sequences=32).with_batch(prompts=256)
    many = few.with_batch(prompts=2560)
    one, ten = (generation(RolloutInput.of(each), concurrent_sequences=4096) for each in (few, many))
    assert len(ten.stretches) < 2 * len(one.stretches)
    assert ten.tokens == pytest.approx(10 * one.tokens, rel=0.06)
    longest = few.batch.max_response_tokens  # what the last ones take is there once
    assert 10 * (one.steps - longest) < ten.steps < 10 * one.steps


def test_responses_to_one_prompt_read_all_of_it_wherever_its_blocks_are_shared() -> None:
    """What a step reads of the cache does not depend on whose blocks they are."""
    alone = knowing(response=500).with_batch(prompts=64, responses_per_prompt=8)
    cached, own = (alone.with_rollout(prefix_caching=shared) for shared in (True, False))
    first, second = (generation(RolloutInput.of(each), concurrent_sequences=4096) for each in (cached, own))
    last, other = first.stretches[-1], second.stretches[-1]
    assert last.decoding == other.decoding
    assert last.context == pytest.approx(other.context, rel=0.01)
    assert last.context > cached.batch.mean_prompt_tokens
