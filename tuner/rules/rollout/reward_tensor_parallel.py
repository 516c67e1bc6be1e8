"""Prefer more replicas of a reward model over wider ones

What it checks
--------------

A smaller tensor-parallel size of the inference engine that serves a reward model leaves room for weights and cache, and shortens the step.

Why it matters
--------------

Each replica judges its own responses without talking to the others.
Judging only reads prompts and responses once, so the all-reduces of a wider replica pay for nothing but the room of its weights.

When it does not apply
----------------------

The weights leave too little cache on one GPU, or bringing them back from the host takes longer than the all-reduces.
On GPUs of its own a reward model judges while responses are written, and adds nothing to the step.
Expert parallelism ties this size to its own.

Sources
-------

verl 0.9.1, ``experimental/reward_loop/reward_model.py`` (``RewardModelManager``: a replica for every ``tensor_model_parallel_size`` GPUs).
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.reward_engine import tensor_proposals
from tuner.workload import Phase

RULE = Rule(
    code="ROL024",
    name="reward-tensor-parallel",
    summary=N_("smaller replicas of a reward model's engine fit and are faster"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Make replicas as small as is fastest."""
    reward = case.workload.reward
    if reward is None or reward.server is None:
        return None
    now = reward.server
    paying = {
        size: proposal
        for size, proposal in tensor_proposals(case.workload)
        if size < now.tensor_parallel and case.pays(proposal)
    }
    if not paying:
        return None
    best = min(paying, key=lambda size: case.seconds(paying[size]))
    ranks_per_size = now.replica_gpus // now.tensor_parallel
    return Finding(
        rule=RULE,
        message=_(
            "{replicas} replicas of {replica_gpus} GPUs judge; weights and cache fit {more_replicas} of {fewer_gpus}"
        ).format(
            replicas=now.replicas,
            replica_gpus=now.replica_gpus,
            more_replicas=now.gpus // (best * ranks_per_size),
            fewer_gpus=best * ranks_per_size,
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.REWARD,
        proposal=paying[best],
    )
