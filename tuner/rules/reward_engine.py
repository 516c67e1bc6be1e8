"""Memory fractions and tensor-parallel sizes of the inference engine that serves a reward model."""

from collections.abc import Iterator
from functools import lru_cache

from msgspec.structs import replace

from tuner.memory.rollout.capacity import service_problems
from tuner.rules.case import Case
from tuner.rules.rollout_engine import HUNDREDTHS, tensor_sizes
from tuner.workload import Phase, ServiceRole, Workload


def problem(workload: Workload) -> str | None:
    """Why the reward model's engine does not start, None where it does."""
    return next(iter(service_problems(workload, ServiceRole.REWARD)), None)


def with_fraction(workload: Workload, hundredths: int) -> Workload:
    """The workload with another memory fraction of the reward model's engine."""
    reward = workload.reward
    if reward is None or reward.server is None:
        return workload
    return workload.with_reward(server=replace(reward.server, memory_fraction=hundredths / 100))


@lru_cache(maxsize=64)  # each phase that lacks memory asks for it
def least_reward_fraction(workload: Workload) -> Workload | None:
    """The smallest memory fraction with which the engine starts, None where none does."""
    reward = workload.reward
    if reward is None or reward.server is None:
        return None
    proposals = (with_fraction(workload, hundredths) for hundredths in HUNDREDTHS)
    return next((proposal for proposal in proposals if problem(proposal) is None), None)


def starting_fraction(case: Case, *, now: float) -> Workload | None:
    """The nearest memory fraction with which an engine starts that does not, None where none does.

    The smallest of the larger ones that costs no memory that is missing, else the largest of the smaller
    ones with which its phase fits.
    """
    larger = (value for value in HUNDREDTHS if value > now * 100)
    smaller = (value for value in reversed(HUNDREDTHS) if value < now * 100)
    more = (with_fraction(case.workload, value) for value in larger)
    less = (with_fraction(case.workload, value) for value in smaller)
    raised = next((proposal for proposal in more if problem(proposal) is None), None)
    if raised is not None and case.affords(raised):
        return raised
    return next((it for it in less if problem(it) is None and case.eases(it, Phase.REWARD)), None)


def largest_reward_fraction(case: Case, *, below: float) -> Workload | None:
    """The largest memory fraction below one with which the phase fits and the engine starts."""
    fitting = case.largest(
        [hundredths for hundredths in HUNDREDTHS if hundredths < below * 100],
        lambda hundredths: with_fraction(case.workload, hundredths),
        accept=lambda other: case.eases(other, Phase.REWARD),
    )
    if fitting is None:
        return None
    proposal = with_fraction(case.workload, fitting)
    return proposal if problem(proposal) is None else None


def tensor_proposals(workload: Workload) -> Iterator[tuple[int, Workload]]:
    """The workload with each tensor-parallel size that the engine can have; none where its experts tie it."""
    reward = workload.reward
    if reward is None or reward.server is None or reward.model is None or reward.server.expert_parallel > 1:
        return
    for size in tensor_sizes(reward.model, reward.server, workload.cluster.gpus_per_node):
        yield size, workload.with_reward(server=replace(reward.server, tensor_parallel=size))
