"""Laws of the memory model."""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import fields, replace

from tests import workloads
from tuner import memory
from tuner.memory import Estimate, Item, Moment, PhaseEstimate, Term, residents
from tuner.memory.process.overhead import ENGINE_KERNELS
from tuner.memory.rollout.capacity import rollout_memory
from tuner.memory.rollout.process import engine_buffers, engine_process
from tuner.workload import Batching, FractionOf, Parallelism, Pass, Phase, Workload


def _update(workload: Workload, **changes: object) -> Workload:
    batching = replace(workload.actor.update.batching, **changes)
    return workload.with_actor(update=replace(workload.actor.update, batching=batching))


def _peak(workload: Workload, phase: Phase) -> int:
    found = memory.estimate(workload).phase(phase)
    assert found is not None
    return found.peak_bytes


def _values(part: object) -> Iterator[object]:
    if isinstance(part, Struct):
        for field in fields(part):
            yield from _values(getattr(part, field.name))
    elif isinstance(part, tuple):
        for item in part:
            yield from _values(item)
    else:
        yield part


@pytest.mark.parametrize("make", workloads.ALL)
def test_every_size_is_a_whole_number_of_bytes(make: object) -> None:
    estimate: Estimate = memory.estimate(make())  # type: ignore[operator]
    terms = [term for phase in estimate.phases for moment in phase.moments for term in moment.terms]
    assert terms and all(type(term.bytes) is int and term.bytes > 0 for term in terms)
    assert all(type(end) is int for term in terms for end in (term.low, term.high))
    # The numbers put into a formula may be shares.
    plain = (replace(term, symbols=()) for term in terms)
    assert not any(isinstance(value, float) for term in plain for value in _values(term))


@pytest.mark.parametrize("make", workloads.ALL)
@pytest.mark.parametrize("phase", Phase)
def test_a_phase_that_is_asked_for_alone_is_that_of_the_whole(make: object, phase: Phase) -> None:
    workload: Workload = make()  # type: ignore[operator]
    asked, whole = memory.StepMemory(workload), memory.estimate(workload)
    one = whole.phase(phase)
    assert asked.phase(phase) == (one and replace(one, before=None))  # what is left of others comes last
    assert asked.problems == whole.problems
    assert asked.estimate == whole


@pytest.mark.parametrize("make", workloads.ALL)
def test_a_moment_has_the_bytes_of_its_terms(make: object) -> None:
    estimate: Estimate = memory.estimate(make())  # type: ignore[operator]
    for phase in estimate.phases:
        for moment in phase.moments:
            assert moment.bytes == sum(term.bytes for term in moment.terms)


@pytest.mark.parametrize("make", workloads.ALL)
def test_terms_have_distinct_names_within_a_moment(make: object) -> None:
    estimate: Estimate = memory.estimate(make())  # type: ignore[operator]
    for phase in estimate.phases:
        for moment in phase.moments:
            names = [term.name for term in moment.terms]
            assert len(names) == len(set(names)), (phase.phase, moment.name, names)


@given(budget=st.integers(4_096, 60_000), more=st.integers(1, 60_000))
def test_more_tokens_never_take_less(budget: int, more: int) -> None:
    workload = workloads.grpo_7b()
    small = _update(workload, dynamic=True, token_budget=budget)
    large = _update(workload, dynamic=True, token_budget=budget + more)
    assert _peak(small, Phase.UPDATE_ACTOR) <= _peak(large, Phase.UPDATE_ACTOR)


@given(sequences=st.integers(1, 64))
def test_more_sequences_never_take_less(sequences: int) -> None:
    workload = workloads.grpo_7b()
    small = _update(workload, dynamic=False, micro_batch_sequences=sequences)
    large = _update(workload, dynamic=False, micro_batch_sequences=sequences + 1)
    assert _peak(small, Phase.UPDATE_ACTOR) <= _peak(large, Phase.UPDATE_ACTOR)


@given(ranks=st.sampled_from([1, 2, 3, 4, 8, 16, 64]))
def test_shards_add_up_to_the_whole(ranks: int) -> None:
    workload = workloads.grpo_7b()
    engine = replace(workload.actor.engine, parallel=Parallelism(gpus=ranks, shard=ranks))
    whole = workload.model.parameters * engine.stored_dtype.bytes
    part = residents.parameters(workload.model, engine).bytes
    assert whole <= part * ranks < whole + ranks * engine.stored_dtype.bytes


def test_plain_fsdp_states_equal_the_closed_form() -> None:
    """16 bytes per parameter over the ranks, and 4 more while AdamW steps."""
    workload = workloads.grpo_7b()
    engine = replace(workload.actor.engine, param_offload=False, optimizer_offload=False, lora=None)
    shard = -(-workload.model.parameters // engine.parallel.shard)
    assert residents.parameters(workload.model, engine).bytes == 4 * shard
    assert residents.gradients(workload.model, engine).bytes == 4 * shard
    assert residents.optimizer(workload.model, engine).bytes == 8 * shard
    assert residents.optimizer_step(workload.model, engine).bytes == 4 * shard
    assert residents.optimizer_step(workload.model, replace(engine, fused_optimizer=True)).bytes == 0


def test_deferred_gradients_do_not_shrink_with_more_gpus() -> None:
    workload = workloads.grpo_7b()
    few, many = (
        _deferred_gradients(
            workload.with_actor_engine(
                parallel=Parallelism(gpus=gpus, shard=gpus), deferred_gradient_sync=True
            )
        )
        for gpus in (8, 64)
    )
    assert few == many == 4 * workload.model.parameters


def _deferred_gradients(workload: Workload) -> int:
    """The most that gradients take while they wait for their reduction."""
    update = memory.estimate(workload).phase(Phase.UPDATE_ACTOR)
    assert update is not None
    terms = (term for moment in update.moments for term in moment.terms)
    return max(term.bytes for term in terms if term.name == "deferred_gradients")


def test_offloaded_states_leave_the_other_phases_only() -> None:
    workload = workloads.grpo_7b().with_actor_engine(param_offload=False, optimizer_offload=False)
    offloaded = workload.with_actor_engine(param_offload=True, optimizer_offload=True)
    saved = _peak(workload, Phase.ROLLOUT) - _peak(offloaded, Phase.ROLLOUT)
    engine = workload.actor.engine
    states = (
        residents.parameters(workload.model, engine).bytes + residents.optimizer(workload.model, engine).bytes
    )
    assert saved == states
    assert _peak(workload, Phase.UPDATE_ACTOR) == _peak(offloaded, Phase.UPDATE_ACTOR)
    assert memory.estimate(offloaded).host_bytes - memory.estimate(workload).host_bytes == states * 8


@given(fraction=st.floats(0.3, 0.95))
def test_the_engine_takes_its_fraction_of_the_card(fraction: float) -> None:
    workload = workloads.grpo_7b().with_rollout(memory_fraction=fraction, fraction_of=FractionOf.TOTAL)
    engine = rollout_memory(workload)
    requested = ceil(Fraction(str(fraction)) * workload.cluster.gpu.memory_bytes)
    kernels = ENGINE_KERNELS.typical
    assert engine.kv_bytes + engine.weight_bytes + engine.activation_bytes + kernels == requested
    # What was there before the engine counts, and what it does not count, comes on top.
    process, buffers = engine_process(workload), engine_buffers(workload)
    assert process is not None and buffers is not None
    on_top = process.bytes + buffers.bytes - kernels
    assert engine.pool_bytes - engine.graph_bytes == requested + on_top


def test_the_kv_cache_of_a_known_model() -> None:
    """Qwen2.5-7B: 28 layers, 4 key-value heads of 128, 2 bytes: 56 KiB per token."""
    engine = rollout_memory(workloads.grpo_7b().with_rollout(tensor_parallel=1))
    assert engine.kv_bytes_per_token == 56 * 1024


def test_a_rollout_without_room_for_a_cache_is_a_problem() -> None:
    estimate = memory.estimate(workloads.grpo_7b().with_rollout(memory_fraction=0.05, tensor_parallel=1))
    assert estimate.problems and not estimate.fits()


def test_more_host_memory_than_a_node_has_is_a_problem() -> None:
    workload = workloads.grpo_7b().with_actor_engine(param_offload=True, optimizer_offload=True)
    needed = memory.estimate(workload).host_bytes

    def on(host_bytes: int | None) -> Estimate:
        machines = replace(workload.cluster, host_memory_bytes=host_bytes)
        return memory.estimate(replace(workload, cluster=machines))

    assert on(needed).fits() and on(None).fits()
    short = on(needed - 1)
    assert short.host_is_short and not short.fits()
    assert any("host memory" in problem for problem in short.problems)


# -- intervals -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", workloads.ALL)
def test_every_figure_lies_in_its_interval(make: object) -> None:
    estimate: Estimate = memory.estimate(make())  # type: ignore[operator]
    for phase in estimate.phases:
        low, high = phase.interval
        assert low < phase.peak_bytes < high  # every phase has constants in it
        for moment in phase.moments:
            assert all(term.low <= term.bytes <= term.high for term in moment.terms)
            assert sum(term.high for term in moment.terms) <= high
    assert estimate.high_bytes == max(phase.interval[1] for phase in estimate.phases)


def _term(name: str, size: int, item: Item = Item.ACTIVATIONS, spread: int = 0) -> Term:
    return Term(item=item, name=name, bytes=size, low_bytes=size - spread, high_bytes=size + spread)


def test_reserved_is_between_the_peak_and_blocks_of_its_own_for_each_kind() -> None:
    foreign = (_term("kv_cache", 1000, Item.KV_CACHE), _term("context", 1000, Item.OVERHEAD))
    phase = PhaseEstimate(
        phase=Phase.UPDATE_ACTOR,
        own=(
            Moment(name="a", terms=(_term("weights", 10), _term("logits", 50, spread=1), *foreign)),
            Moment(name="b", terms=(_term("weights", 10), _term("logits", 20), _term("layer", 35))),
        ),
    )
    assert phase.allocated_bytes == 65
    assert phase.reserved_interval == (65, 10 + 51 + 35)
    assert phase.kept_bytes == 96 - 65
    assert phase.shown_high_bytes == 2000 + 96  # beside what PyTorch does not hand out


def test_freed_blocks_are_shown_and_not_judged() -> None:
    """PyTorch gives them back before a request of its own fails: a card that has no room for them fits."""
    estimate = memory.estimate(workloads.grpo_7b())
    update = estimate.phase(Phase.UPDATE_ACTOR)
    assert update is not None
    assert update.interval[1] < update.shown_high_bytes
    card = replace(estimate, phases=(update,), capacity_bytes=update.interval[1])
    assert card.fits_for_certain()


def test_one_moment_leaves_nothing_to_keep() -> None:
    phase = memory.estimate(workloads.grpo_7b()).phase(Phase.UPDATE_WEIGHTS)
    assert phase is not None and len(phase.moments) == 1
    assert phase.reserved_interval == (phase.allocated_bytes, phase.allocated_bytes)


def test_a_card_between_the_peak_and_the_high_end_fits_but_not_for_certain() -> None:
    workload = workloads.grpo_7b()
    estimate = memory.estimate(workload)

    def on(capacity: int) -> Estimate:
        return replace(estimate, capacity_bytes=capacity)

    peak, high = estimate.worst.peak_bytes, estimate.high_bytes
    assert [(on(size).fits(), on(size).fits_for_certain()) for size in (peak - 1, peak, high - 1, high)] == [
        (False, False),
        (True, False),
        (True, False),
        (True, True),
    ]


def test_entropy_costs_nothing_compiled_and_fourteen_bytes_eager() -> None:
    workload = workloads.grpo_7b()
    one_pass = Pass(
        batching=Batching(dynamic=True, token_budget=16_384, micro_batch_sequences=1), entropy=True
    )
    compiled = workload.with_actor(log_prob=one_pass).with_actor_head(compiled=True)
    eager = compiled.with_actor_head(compiled=False)
    found = memory.estimate(eager).phase(Phase.OLD_LOG_PROB)
    assert found is not None
    assert found.bytes_of(Item.LOGITS) == 14 * 16_384 * workload.model.vocab
    assert _peak(compiled, Phase.OLD_LOG_PROB) < _peak(eager, Phase.OLD_LOG_PROB)
