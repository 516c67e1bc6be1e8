"""Spread a reward model's weights over more GPUs

What it checks
--------------

The inference engine of a reward model cannot start, and no memory fraction that fits changes that.
The proposal is the smallest tensor-parallel size with which it starts.

Why it matters
--------------

Every GPU of a replica holds its share of the weights within the memory fraction.
When that share leaves no room for the cache of one sequence, the engine stops before the first step.

When it does not apply
----------------------

Another memory fraction is enough.
On GPUs of its own a replica is never wider than the pool.

Sources
-------

verl 0.9.1, ``experimental/reward_loop/reward_model.py`` (``RewardModelManager``).
vLLM, ``v1/core/kv_cache_utils.py``, ``check_enough_kv_cache_memory``.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.reward_engine import problem, starting_fraction, tensor_proposals
from tuner.workload import Phase

RULE = Rule(
    code="ROL025",
    name="reward-tensor-parallel-too-small",
    summary=N_("a reward model's weights leave no room for a cache on so few GPUs"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Widen the replicas until the engine starts."""
    reward = case.workload.reward
    reason = problem(case.workload)
    if reason is None or reward is None or reward.server is None:
        return None
    now = reward.server
    if starting_fraction(case, now=now.memory_fraction) is not None:
        return None
    wider = ((size, it) for size, it in tensor_proposals(case.workload) if size > now.tensor_parallel)
    starting = next(((size, it) for size, it in wider if problem(it) is None), None)
    if starting is None:
        return None
    size, proposal = starting
    return Finding(
        rule=RULE,
        message=_("{reason}: {gpus} GPUs per replica instead of {replica_gpus} leave room").format(
            reason=reason, gpus=size * now.replica_gpus // now.tensor_parallel, replica_gpus=now.replica_gpus
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.REWARD,
        proposal=proposal,
    )
