"""States that a rollout's cache keeps from the card, although it needs little of the room that it has."""

from msgspec.structs import replace

from tests.workloads import grpo_7b, static
from tuner.rules.case import Case
from tuner.rules.memory import offload_not_needed
from tuner.workload import Workload

HEADROOM = 0.1


def offloaded(*, prompts: int, fraction: float) -> Workload:
    job = grpo_7b()
    engine = replace(job.actor.engine, param_offload=True, optimizer_offload=True)
    batch = replace(job.batch, prompts=prompts, mini_batch_prompts=prompts)
    return replace(job.with_actor(engine=engine), batch=batch).with_rollout(memory_fraction=fraction)


def test_a_cache_with_room_to_spare_makes_room_for_the_states() -> None:
    """Of a small batch a fraction of the cache holds every sequence at full length."""
    job = offloaded(prompts=8, fraction=0.85)
    found = offload_not_needed.check(Case.of(job, headroom=HEADROOM))
    assert found is not None and found.proposal is not None
    engine = found.proposal.actor.engine
    assert not engine.param_offload and not engine.optimizer_offload
    assert found.proposal.generator.memory_fraction < 0.85
    assert "instead of 0.85 makes room for them" in found.notes[0]
    assert Case.of(job, headroom=HEADROOM).pays(found.proposal)
    assert offload_not_needed.check(Case.of(found.proposal, headroom=HEADROOM)) is None


def test_where_the_states_have_room_the_fraction_stays() -> None:
    found = offload_not_needed.check(Case.of(offloaded(prompts=8, fraction=0.4), headroom=HEADROOM))
    assert found is not None and found.proposal is not None
    assert found.proposal.generator.memory_fraction == 0.4 and not found.notes


def test_a_cache_that_is_needed_is_left_alone() -> None:
    """With fewer sequences at a time generation takes longer than the states on their way."""
    job = offloaded(prompts=2048, fraction=0.85)
    assert offload_not_needed.check(Case.of(job, headroom=HEADROOM)) is None


def test_of_a_job_that_lacks_memory_nothing_is_said() -> None:
    """Not even where the phase that lacks it has the states on the card anyway."""
    large = offloaded(prompts=32, fraction=0.4)
    large = large.with_actor(update=static(32))
    assert Case.of(large, headroom=HEADROOM).short() is not None
    assert offload_not_needed.check(Case.of(large, headroom=HEADROOM)) is None
