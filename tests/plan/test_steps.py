"""Searches that go step by step: no worse than advice, what they know when they are stopped, what they do."""

import pytest

from tests.plan import jobs
from tests.plan.jobs import HEADROOM, JOBS, SmallJob
from tuner.advise import advise
from tuner.advise.usual_host import may_lack_host
from tuner.plan.legality import Legality
from tuner.plan.planning import PlanRequest, plan
from tuner.plan.search import SearchProgress, SettingSearch
from tuner.plan.space import Choice

pytestmark = pytest.mark.sampled(6)

ALL = pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)


@ALL
def test_a_plan_is_no_worse_than_the_block_of_advice(job: SmallJob) -> None:
    reading = jobs.reading_of(job)
    block = advise(reading, headroom=HEADROOM).combination
    best = plan(reading, PlanRequest(headroom=HEADROOM)).best
    if block is not None and not may_lack_host(block.estimate, block.workload.cluster.gpus_per_node):
        assert best is not None
        assert best.time.seconds <= block.time.seconds


@ALL
def test_steps_come_close_to_the_best_of_a_small_space(job: SmallJob) -> None:
    legality = Legality(jobs.reading_of(job), jobs.space(job))
    result = SettingSearch(jobs.space(job), legality, headroom=HEADROOM).run(largest_whole=0)
    best = min(one.seconds for one in jobs.priced(job))
    assert not result.whole
    assert result.best[0].seconds <= 1.02 * best
    assert result.looked_at < jobs.space(job).size


def test_a_search_that_is_stopped_has_what_it_knew() -> None:
    told: list[SearchProgress] = []

    def watch(progress: SearchProgress) -> None:
        told.append(progress)
        raise KeyboardInterrupt

    result, _ = jobs.search(JOBS[0], watch=watch)
    assert result.stopped and not result.whole
    assert result.looked_at == told[0].looked_at < told[0].size == jobs.space(JOBS[0]).size
    assert result.best[0].seconds == told[0].best_s


def test_what_the_passes_lack_is_asked_once_for_all_sizes_of_a_cache_that_leaves_the_card() -> None:
    job = next(job for job in JOBS if job.name == "fsdp-moe")
    space = jobs.space(job)
    names = [axis.name for axis in space.axes]
    fraction, sleep = names.index("fraction"), names.index("sleep")

    def choice(**numbers: int) -> Choice:
        return tuple(numbers.get(name, 1) for name in names)

    asleep, other, layout = choice(sleep=0), choice(sleep=0, fraction=2), choice(sleep=0, layout=2)
    assert space.in_passes(asleep) == space.in_passes(other) != space.in_passes(layout)
    assert space.axes[fraction].options[2].changes and space.axes[sleep].options[1].changes
    assert space.in_passes(choice()) != space.in_passes(choice(fraction=2))
