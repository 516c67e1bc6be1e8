"""The job's update under one token budget after the other: its peak, its seconds, and the knee."""

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

import running_job
from tuner import memory
from tuner.rules.case import LEAST_GAIN
from tuner.timing import step_time
from tuner.timing.job import TimedPasses
from tuner.workload import Phase, Workload

BUDGETS = tuple(2048 * 2**power for power in range(7))


class Budgeted(Struct, frozen=True, kw_only=True):
    """The update under one budget."""

    budget: int
    peak_bytes: int
    update_seconds: float
    step_seconds: float


def budgeted(job: Workload, budget: int) -> Workload:
    """The job with dynamic batches in the actor's update."""
    batching = replace(job.actor.update.batching, dynamic=True, token_budget=budget)
    return job.with_actor(update=replace(job.actor.update, batching=batching))


def sweep(job: Workload) -> list[Budgeted]:
    """The update under every budget that is shown."""
    return [_budgeted(budgeted(job, budget), budget) for budget in BUDGETS]


def _budgeted(job: Workload, budget: int) -> Budgeted:
    time = step_time(job, concurrent_sequences=memory.rollout_memory(job).concurrent_sequences)
    peak, update = memory.estimate(job).phase(Phase.UPDATE_ACTOR), time.phase(Phase.UPDATE_ACTOR)
    if peak is None or update is None:
        raise ValueError("the job of the guide has no update")
    return Budgeted(
        budget=budget,
        peak_bytes=peak.peak_bytes,
        update_seconds=update.seconds,
        step_seconds=time.seconds,
    )


def knee(job: Workload) -> int:
    """The budget from which twice as much makes the step less than a percent shorter, as rules have it."""
    found = sweep(job)
    for small, large in pairwise(found):
        if large.step_seconds >= small.step_seconds * (1 - LEAST_GAIN):
            return small.budget
    return found[-1].budget


def free(job: Workload) -> int:
    """The largest budget under which the update peaks within a percent of the peak under the least."""
    found = sweep(job)
    least = found[0].peak_bytes
    return max(one.budget for one in found if one.peak_bytes <= least * (1 + LEAST_GAIN))


def micro_batches(name: str, overrides: Sequence[str]) -> int:
    """How many micro-batches one GPU computes in a pass; in a mini-batch where it trains."""
    job = running_job.workload(overrides)
    (found,) = (one for one in job.passes() if one.phase.value == name)
    return TimedPasses(cluster=job.cluster, batch=job.batch, step_pass=found).micro.count
