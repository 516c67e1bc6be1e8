"""Jobs of a space: what a choice makes of them, and what of them many choices share."""

from itertools import product

import pytest

from tests.plan import jobs
from tests.plan.jobs import JOBS, SmallJob
from tuner.advise.differences import merged
from tuner.plan.space import Choice, Space

ALL = pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
MOST = 200  # choices of each


def choices(space: Space) -> list[Choice]:
    every = list(product(*(range(len(axis.options)) for axis in space.axes)))
    single = [choice for choice in every if sum(map(bool, choice)) == 1]
    return [*single, *every[:: max(1, len(every) // MOST)]]


@ALL
def test_a_choice_makes_what_its_changes_make_together(job: SmallJob) -> None:
    space = jobs.space(job)
    for choice in choices(space):
        together: dict[tuple[str, ...], object] = {}
        for axis, number in zip(space.axes, choice, strict=True):
            together.update(axis.options[number].changes)
        assert space.workload(choice) == merged(space.base, together)


@ALL
def test_what_choices_change_alike_is_the_same_struct(job: SmallJob) -> None:
    """Whatever else they change: what is remembered of a part is found by its identity."""
    space = jobs.space(job)
    known: dict[object, object] = {}
    for workload in map(space.workload, choices(space)):
        for part in (workload.actor, workload.actor.engine, workload.reference, workload.rollout):
            assert known.setdefault(part, part) is part


def test_what_is_beside_the_passes_is_one_for_all_that_these_recompute() -> None:
    job = next(job for job in JOBS if job.name == "megatron")
    space = jobs.space(job)
    place = [axis.name for axis in space.axes].index("recomputation")
    alike = [choice for choice in choices(space) if not any((*choice[:place], *choice[place + 1 :]))]
    assert len(alike) > 2
    assert len({space.workload(choice).at_rest for choice in alike}) == 1
