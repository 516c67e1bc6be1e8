"""Laws that hold for every workload, checked on generated ones."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import fields, replace

from tests.rules.generate import any_workload
from tests.workloads import megatron_engine
from tuner import memory
from tuner.batching import micro_batches, overshoot
from tuner.memory import Item, residents
from tuner.memory.fsdp import states
from tuner.memory.megatron.grid import rank_parameters, stage_parameters
from tuner.model_shape import ModelShape
from tuner.models import find_model
from tuner.workload import Backend, Batching, Checkpointing, Engine, Pass, Phase, Scaling, Workload

pytestmark = pytest.mark.sampled(6)

PASSES = (Phase.OLD_LOG_PROB, Phase.REF_LOG_PROB, Phase.VALUES, Phase.UPDATE_CRITIC, Phase.UPDATE_ACTOR)


jobs = any_workload()
law = settings(max_examples=40)  # of each day; drawing a job takes longer than estimating it


def allocated(workload: Workload, phase: Phase) -> int:
    """The peak of the trainer's allocator, 0 where the step has no such phase."""
    found = memory.estimate(workload).phase(phase)
    return 0 if found is None else found.allocated_bytes


def peaks(workload: Workload) -> dict[Phase, int]:
    return {phase: allocated(workload, phase) for phase in PASSES}


def grows(before: Workload, after: Workload) -> None:
    small, large = peaks(before), peaks(after)
    assert all(small[phase] <= large[phase] for phase in PASSES), (small, large)


def each_pass(workload: Workload, change: Callable[[Batching], Batching]) -> Workload:
    """A copy of the job with other micro-batches in every pass."""

    def changed(one: Pass) -> Pass:
        return replace(one, batching=change(one.batching))

    actor, reference, critic = workload.actor, workload.reference, workload.critic
    log_prob = None if actor.log_prob is None else changed(actor.log_prob)
    workload = workload.with_actor(update=changed(actor.update), log_prob=log_prob)
    if reference is not None:
        workload = workload.with_reference(log_prob=changed(reference.log_prob))
    if critic is not None:
        workload = workload.with_critic(update=changed(critic.update), values=changed(critic.values))
    return workload


def each_engine(workload: Workload, change: Callable[[Engine], Engine]) -> Workload:
    workload = workload.with_actor(engine=change(workload.actor.engine))
    if workload.reference is not None:
        workload = workload.with_reference(engine=change(workload.reference.engine))
    if workload.critic is not None:
        workload = workload.with_critic(engine=change(workload.critic.engine))
    return workload


def with_model(workload: Workload, model: ModelShape) -> Workload:
    workload = replace(workload, model=model)
    return workload if workload.critic is None else workload.with_critic(model=model)


# -- tokens -----------------------------------------------------------------------------


@law
@given(job=jobs, more=st.integers(1, 40_000))
def test_a_larger_token_budget_never_takes_less(job: Workload, more: int) -> None:
    """Unless it makes one micro-batch of several, which need not keep gradients for each other."""
    before = each_pass(job, lambda one: replace(one, dynamic=True))
    after = each_pass(before, lambda one: replace(one, token_budget=one.token_budget + more))
    assume(_accumulates(before) == _accumulates(after))
    grows(before, after)


@law
@given(job=jobs, more=st.integers(1, 8))
def test_more_sequences_in_a_micro_batch_never_take_less(job: Workload, more: int) -> None:
    static = each_pass(job, lambda one: replace(one, dynamic=False))
    larger = each_pass(
        static, lambda one: replace(one, micro_batch_sequences=one.micro_batch_sequences + more)
    )
    assume(_accumulates(static) == _accumulates(larger))
    grows(static, larger)


def _accumulates(workload: Workload) -> tuple[bool, ...]:
    """Whether the updates have several micro-batches, so that gradients wait between them."""
    updates = [step_pass for step_pass in workload.passes() if step_pass.training]
    return tuple(micro_batches(workload.batch, update) > 1 for update in updates)


@law
@given(job=jobs, prompt=st.integers(0, 2_000), response=st.integers(0, 2_000))
def test_longer_sequences_never_take_less(job: Workload, prompt: int, response: int) -> None:
    # Sequences that are padded under a budget are fewer in a micro-batch when they are longer.
    assume(all(step_pass.engine.packed or not step_pass.batching.dynamic for step_pass in job.passes()))
    batch = job.batch
    longer = job.with_batch(
        max_prompt_tokens=batch.max_prompt_tokens + prompt,
        max_response_tokens=batch.max_response_tokens + response,
    )
    grows(job, longer)


@law
@given(job=jobs, times=st.integers(2, 4))
def test_more_micro_batches_never_take_less(job: Workload, times: int) -> None:
    """A larger mini-batch in micro-batches of the same size: gradients wait for the others."""
    static = each_pass(job, lambda one: replace(one, dynamic=False, micro_batch_sequences=1))
    larger = static.with_batch(
        prompts=static.batch.prompts * times, mini_batch_prompts=static.batch.mini_batch_prompts * times
    )
    grows(static, larger)


@given(
    budget=st.integers(1_000, 40_000),
    longest=st.integers(100, 20_000),
    sequences=st.integers(1, 200),
)
def test_the_overshoot_is_the_worst_of_all_counts(budget: int, longest: int, sequences: int) -> None:
    """Against every number of equally long sequences in every number of micro-batches."""
    assume(longest <= budget)
    worst = 1.0
    for made in range(1, sequences):
        for count in range(made + 1, sequences + 1):
            length = min(longest, made * budget / count)
            worst = max(worst, -(-count // made) * length / budget)
    assert overshoot(budget, longest, sequences) >= worst * (1 - 1e-9)
    assert overshoot(budget, longest, sequences) <= max(worst, 1.0) * (1 + 1e-9)


# -- parameters -------------------------------------------------------------------------


@law
@given(job=jobs, layers=st.integers(1, 8))
def test_more_layers_never_take_less(job: Workload, layers: int) -> None:
    stages = job.actor.engine.parallel.pipeline
    model = job.model
    assume(model.moe is None and model.linear is None)
    grows(job, with_model(job, replace(model, layers=model.layers + layers * stages)))


@law
@given(job=jobs, entries=st.sampled_from((64, 128, 1024)))
@pytest.mark.parametrize("name", ["hidden", "intermediate", "vocab"])
def test_a_wider_model_never_takes_less(name: str, job: Workload, entries: int) -> None:
    wider = replace(job.model, **{name: getattr(job.model, name) + entries})
    grows(job, with_model(job, wider))


# -- ranks ------------------------------------------------------------------------------


@law
@given(job=jobs, times=st.sampled_from((2, 4)))
def test_more_ranks_that_share_the_states_never_take_more(job: Workload, times: int) -> None:
    """The batch grows with them, so that each rank works on as many tokens."""
    assume(job.actor.engine.backend is not Backend.MEGATRON)
    batch = job.batch
    wider = each_engine(
        job,
        lambda engine: replace(
            engine,
            parallel=replace(
                engine.parallel, gpus=engine.parallel.gpus * times, shard=engine.parallel.shard * times
            ),
        ),
    ).with_batch(prompts=batch.prompts * times, mini_batch_prompts=batch.mini_batch_prompts * times)
    assume(job.actor.engine.parallel.shard > 1)  # a single rank gathers nothing
    grows(wider, job)


@law
@given(job=jobs)
def test_the_shards_of_all_ranks_are_the_whole(job: Workload) -> None:
    """FSDP: parameters, gradients, moments; a rank's part is rounded up to whole elements."""
    engine, model = job.actor.engine, job.model
    assume(engine.backend is not Backend.MEGATRON)
    ranks = engine.parallel.shard
    stored = states.stored_parameters(model, engine) * engine.stored_dtype.bytes
    trained = states.trained_parameters(model, engine)
    parts = (
        (residents.parameters(model, engine).bytes, stored, engine.stored_dtype.bytes),
        (
            residents.gradients(model, engine).bytes,
            trained * engine.stored_dtype.bytes,
            engine.stored_dtype.bytes,
        ),
        (
            residents.optimizer(model, engine).bytes,
            2 * trained * engine.optimizer_dtype.bytes,
            2 * engine.optimizer_dtype.bytes,
        ),
    )
    for part, whole, element in parts:
        assert whole <= part * ranks <= whole + (ranks - 1) * element


GRIDS = (
    ("qwen2.5-32b", 4, 2, 1, 1),
    ("qwen2.5-0.5b", 2, 4, 1, 1),
    ("llama-3.1-8b", 1, 8, 1, 1),
    ("qwen3-30b-a3b", 2, 1, 8, 1),
    ("qwen3-30b-a3b", 4, 2, 4, 2),
    ("qwen3-235b-a22b", 4, 2, 8, 1),
    ("deepseek-v3", 8, 16, 8, 1),
)


@pytest.mark.parametrize(("name", "tensor", "pipeline", "expert", "expert_tensor"), GRIDS)
def test_the_stages_of_a_grid_hold_the_whole_model(
    name: str, tensor: int, pipeline: int, expert: int, expert_tensor: int
) -> None:
    """Every parameter on one stage, those that are divided once over the ranks; a shared embedding twice."""
    model = find_model(name)
    engine = megatron_engine(
        gpus=pipeline * max(tensor, expert * expert_tensor), tensor=tensor, pipeline=pipeline, expert=expert
    )
    engine = replace(engine, parallel=replace(engine.parallel, expert_tensor=expert_tensor))
    stages = [stage_parameters(model, engine, stage) for stage in range(pipeline)]
    whole = sum(stage.tensor + stage.replicated + stage.expert for stage in stages)
    again = model.embedding_parameters if model.tied_embeddings and pipeline > 1 else 0
    assert whole == model.parameters + again
    assert sum(stage.expert for stage in stages) == model.sparse_layers * model.expert_parameters
    for number, stage in enumerate(stages):
        rank = rank_parameters(model, engine, number)
        divided = (rank.dense - stage.replicated) * tensor
        assert stage.tensor <= divided < stage.tensor + tensor
        held = rank.expert * expert * expert_tensor
        assert stage.expert <= held < stage.expert + expert * expert_tensor


# -- whole bytes and intervals ----------------------------------------------------------


def _values(part: object) -> Iterator[object]:
    if isinstance(part, Struct):
        for field in fields(part):
            if field.name != "symbols":  # numbers of a formula; lengths and shares among them
                yield from _values(getattr(part, field.name))
    elif isinstance(part, tuple):
        for item in part:
            yield from _values(item)
    else:
        yield part


@law
@given(job=jobs)
def test_every_amount_is_a_whole_number_of_bytes(job: Workload) -> None:
    estimate = memory.estimate(job)
    amounts = [value for value in _values(estimate) if isinstance(value, int | float)]
    assert amounts and all(type(value) is int for value in amounts)
    for phase in estimate.phases:
        for moment in phase.moments:
            for term in moment.terms:
                assert type(term.bytes) is int and type(term.low) is int and type(term.high) is int
                assert term.bytes >= 0
    rollout = memory.rollout_memory(job)
    assert all(type(value) is int for value in _values(rollout))


@law
@given(job=jobs)
def test_the_ends_of_every_interval_are_in_order(job: Workload) -> None:
    estimate = memory.estimate(job)
    for phase in estimate.phases:
        low, high = phase.interval
        assert low <= phase.peak_bytes <= high
        for moment in phase.moments:
            assert moment.interval[0] <= moment.bytes <= moment.interval[1]
            for term in moment.terms:
                assert 0 <= term.low <= term.bytes <= term.high, term
        assert phase.allocated_bytes <= phase.peak_bytes


# -- switches ---------------------------------------------------------------------------


def reduces_each_micro_batch(engine: Engine) -> Engine:
    """Without deferral, where that costs memory.

    FSDP1's whole gradients in the compute dtype are no larger than shares in the stored one of few GPUs.
    """
    share = engine.stored_dtype.bytes / engine.parallel.shard
    if engine.backend is Backend.FSDP and engine.compute_dtype.bytes <= share:
        return engine
    return replace(engine, deferred_gradient_sync=False)


def recomputes_layers(engine: Engine) -> Engine:
    """With recomputation, where kept activations cost memory of the card.

    Moved to the host, one layer's come back at a time, as one recomputed layer's stand there; recomputation
    has the inputs of layers on top.
    """
    return engine if engine.activation_offload else replace(engine, checkpointing=Checkpointing.FULL)


COSTLY: dict[str, Callable[[Workload], Workload]] = {
    "entropy": lambda job: job.with_actor(update=replace(job.actor.update, entropy=False)),
    "prefetch": lambda job: each_engine(job, lambda engine: replace(engine, forward_prefetch=False)),
    "temperature": lambda job: job.with_actor_head(scaling=Scaling.NONE),
    "deferred": lambda job: each_engine(job, reduces_each_micro_batch),
    "unsharded": lambda job: each_engine(job, lambda engine: replace(engine, reshard_after_forward=True)),
    "critic": lambda job: replace(job, critic=None),
    "reference": lambda job: replace(job, reference=None),
    "activations": lambda job: each_engine(job, recomputes_layers),
    "graphs": lambda job: job.with_rollout(cuda_graphs=False),
    "colocation": lambda job: job.with_rollout(colocated=False),
}


@pytest.mark.sampled(4)
@law
@given(job=jobs)
@pytest.mark.parametrize("name", COSTLY)
def test_switching_off_what_costs_memory_never_takes_more(name: str, job: Workload) -> None:
    without = COSTLY[name](job)
    before, after = memory.estimate(job), memory.estimate(without)
    for phase in PASSES:
        found, was = after.phase(phase), before.phase(phase)
        if found is not None and was is not None:
            assert found.peak_bytes <= was.peak_bytes, phase


@law
@given(job=jobs)
@pytest.mark.parametrize("switch", ["param_offload", "optimizer_offload"])
def test_offloading_leaves_no_more_on_the_card_between_passes(switch: str, job: Workload) -> None:
    rest, kept = (job.with_actor_engine(**{switch: on}) for on in (True, False))
    for phase in (Phase.VALUES, Phase.UPDATE_CRITIC, Phase.REF_LOG_PROB):
        assert allocated(rest, phase) <= allocated(kept, phase)
    held = {
        on: sum(
            term.bytes
            for moment in found.moments
            for term in moment.terms
            if term.item in (Item.PARAMETERS, Item.OPTIMIZER) and term.name.startswith("actor")
        )
        for on, found in ((True, memory.estimate(rest).phases[0]), (False, memory.estimate(kept).phases[0]))
    }
    assert held[True] <= held[False]
