"""FSDP and Megatron as one space: every setting of both, each priced as advice prices one."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest

from tests.plan import jobs
from tests.plan.jobs import ACTOR, HEADROOM, MEGATRON, SmallJob
from tuner.advise import advise
from tuner.plan.answer import ClusterPlan, PlannedSetting
from tuner.plan.axes import Axis, Value
from tuner.plan.planning import PlanRequest, plan
from tuner.plan.ranking import MOST_SLOWER
from tuner.plan.strategies import together
from tuner.workload import Workload

pytestmark = pytest.mark.sampled(5)


@dataclass(frozen=True, kw_only=True)
class Joint:
    """One job under both, and what is looked at of each."""

    name: str
    parts: tuple[SmallJob, ...]


JOINT = (
    Joint(
        name="dense",
        parts=(
            SmallJob(
                name="fsdp",
                model="qwen2.5-7b",
                options=(
                    *(("layout", 3), ("strategy", 2), ("states", 4), ("fraction", 3)),
                    ("batch-of-update_actor", 4),
                ),
            ),
            SmallJob(
                name="megatron",
                model="qwen2.5-7b",
                overrides=MEGATRON,
                options=(("layout", 8), ("states", 3), ("recomputation", 4), ("batch-of-update_actor", 3)),
            ),
        ),
    ),
    Joint(
        name="sparse",
        parts=(
            SmallJob(
                name="fsdp",
                model="qwen3-30b-a3b",
                gpu="8xh200-sxm",
                nodes=2,
                options=(
                    ("layout", 4),
                    ("strategy", 2),
                    ("states", 4),
                    ("fraction", 3),
                    ("engine-layout", 3),
                ),
            ),
            SmallJob(
                name="megatron",
                model="qwen3-30b-a3b",
                gpu="8xh200-sxm",
                nodes=2,
                overrides=(*MEGATRON, f"{ACTOR}.megatron.expert_model_parallel_size=8"),
                options=(("layout", 8), ("engine-layout", 3), ("states", 4), ("fraction", 3)),
            ),
        ),
    ),
)
ALL = pytest.mark.parametrize("joint", JOINT, ids=lambda joint: joint.name)
Point = tuple[float, int]
SHORTENED = 1.003  # of the least step: lines that bring next to nothing are left out


@cache
def planned(job: SmallJob) -> ClusterPlan:
    """The plan of all settings of a small space, without what advice or the job itself know of others."""
    space = jobs.space(job)

    def axes(_workload: Workload) -> Iterator[Axis]:
        for place, axis in enumerate(space.axes):
            choices = (
                tuple(number if at == place else 0 for at in range(len(space.axes)))
                for number in range(1, len(axis.options))
            )
            values = tuple(Value(text=str(choice), workload=space.workload(choice)) for choice in choices)
            yield Axis(name=axis.name, values=values, layout=axis.layout)

    wanted = PlanRequest(headroom=HEADROOM, most=1000, largest_whole=space.size, block=False)
    return plan(jobs.reading_of(job), wanted, axes=axes)


@cache
def joint_plan(joint: Joint, *, most: int = 5) -> ClusterPlan:
    return together([(job.name, planned(job)) for job in joint.parts], most=most)


def points(joint: Joint) -> set[Point]:
    """Seconds and peaks of every setting of both that is legal and fits, priced one by one."""
    return {(one.seconds, one.peak_bytes) for job in joint.parts for one in jobs.priced(job)}


def known(joint: Joint) -> set[Point]:
    """The jobs as they are, which a plan takes in whatever they leave free."""
    own = (setting for job in joint.parts for setting in planned(job).settings if setting.own)
    return {(one.time.seconds, one.estimate.worst.peak_bytes) for one in own}


@ALL
def test_both_are_looked_at_as_a_whole(joint: Joint) -> None:
    made = joint_plan(joint)
    assert made.whole
    assert made.looked_at == made.size == sum(jobs.space(job).size for job in joint.parts)
    assert all(len(jobs.priced(job)) > 20 for job in joint.parts)


@ALL
def test_the_best_is_the_best_of_both(joint: Joint) -> None:
    made, every = joint_plan(joint), points(joint) | known(joint)
    least = min(seconds for seconds, _peak in every)
    assert made.best is not None and made.trades[0].seconds == least
    assert least <= made.best.time.seconds <= SHORTENED * least
    for job, best in zip(joint.parts, made.strategies, strict=True):
        own = Joint(name=job.name, parts=(job,))
        assert best.setting is not None and best.strategy == job.name
        least = min(seconds for seconds, _ in points(own) | known(own))
        assert least <= best.setting.time.seconds <= SHORTENED * least


@ALL
def test_the_trades_are_the_pareto_set_of_both(joint: Joint) -> None:
    every = points(joint) | known(joint)
    unbeaten = {
        (seconds, peak)
        for seconds, peak in every
        if not any(s <= seconds and p <= peak and (s, p) != (seconds, peak) for s, p in every)
    }
    assert {(one.seconds, one.peak_bytes) for one in joint_plan(joint).trades} == unbeaten


def layouts(setting: PlannedSetting) -> tuple[object, ...]:
    engine, rollout = setting.workload.actor.engine, setting.workload.generator
    sizes = (rollout.tensor_parallel, rollout.data_parallel, rollout.expert_parallel)
    return engine.backend, engine.parallel, sizes


@ALL
def test_no_layout_of_either_is_left_out(joint: Joint) -> None:
    """But for what takes half as long again as the best: one setting of each, in one order."""
    made = joint_plan(joint, most=1000)
    seconds = [one.time.seconds for one in made.settings]
    assert seconds == sorted(seconds) and len({layouts(one) for one in made.settings}) == len(seconds)
    assert {one.strategy for one in made.settings} >= {"megatron"}
    parts = [one for job in joint.parts for one in planned(job).settings]
    worth = {one.workload for one in parts if one.time.seconds <= MOST_SLOWER * seconds[0]}
    assert worth <= {one.workload for one in made.settings}


@ALL
def test_a_short_list_has_the_best_of_each(joint: Joint) -> None:
    made = joint_plan(joint, most=1)
    assert {one.strategy for one in made.settings} == {
        one.setting.strategy for one in made.strategies if one.setting is not None
    }
    assert len(made.settings) == 2
    assert made.settings[0].rank == 1


@ALL
def test_each_is_priced_as_advice_prices_it(joint: Joint) -> None:
    made = joint_plan(joint)
    for setting in made.settings:
        job = joint.parts[setting.strategy == "megatron"]
        reading = jobs.reading_of(job)
        after = reading.adding(setting.overrides) if setting.overrides else reading
        advice = advise(after, headroom=HEADROOM, block=False)
        assert after.workload == setting.workload
        assert advice.time.seconds == setting.time.seconds
        assert advice.estimate.worst.peak_bytes == setting.estimate.worst.peak_bytes


def test_one_that_cannot_be_planned_leaves_the_other() -> None:
    job = JOINT[0].parts[0]
    made = planned(job)
    nothing = ClusterPlan(cluster=made.cluster, settings=(), unread="no such engine")
    for pair in ([("fsdp", made), ("other", nothing)], [("other", nothing), ("fsdp", made)]):
        both = together(pair)
        assert both.best == made.best and not both.unread
        reasons = {one.strategy: one.reason for one in both.strategies}
        assert reasons == {"fsdp": "", "other": "no such engine"}
    assert together([("other", nothing)]).unread == "no such engine"
