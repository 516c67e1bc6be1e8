"""What is asked once for all jobs that differ in their batch and their memory fraction alone."""

import pytest

from tests.rules import generate
from tuner.memory.residents import _residents
from tuner.memory.rollout.share import _sizes
from tuner.timing.weight_sync import _moving_parts
from tuner.workload import Workload

JOBS = [job for job in generate.workloads(60, seed=19) if job.rollout is not None]


def asked_of_itself(job: Workload) -> list[object]:
    """The same with nothing remembered, and of the job as it is."""
    sizes = [_sizes.__wrapped__(job, least=least) for least in (False, True)]
    return [_residents.__wrapped__(job), *sizes, {**_moving_parts.__wrapped__(job), "wake_up": 0.0}]


@pytest.mark.parametrize("number", range(len(JOBS)))
def test_neither_batch_nor_fraction_changes_what_engines_hold_and_send(number: int) -> None:
    job = JOBS[number]
    assert asked_of_itself(job) == asked_of_itself(job.standing)


def test_jobs_of_the_same_engines_stand_alike() -> None:
    for job in JOBS:
        other = job.with_rollout(memory_fraction=0.123).with_batch(prompts=7, responses_per_prompt=3)
        assert other.standing == job.standing != other
        assert other.with_rollout(tensor_parallel=64).standing != job.standing
