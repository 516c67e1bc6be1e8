"""Let the engine run as many sequences as its cache holds

What it checks
--------------

The limit on running sequences, not the KV cache, keeps sequences waiting.
The proposal is the number that the cache holds at full length, or that a replica has.

Why it matters
--------------

A decoding step reads the weights once for all running sequences.
A low limit leaves cache empty and takes more steps than needed.
Log lines that show a low cache usage while requests wait are the sign of it.

When it does not apply
----------------------

Early releases leave this limit to the engine.
The cache is what limits: then a larger memory fraction helps, a larger limit would only preempt.
Each sequence of the limit also costs the sampler a row of the vocabulary, which is counted.

Sources
-------

verl documentation, performance tuning guide, "Rollout Generation Tuning".
verl 0.9.1 lowered the default limit from 1024 to 256.
vLLM, ``v1/core/sched/scheduler.py``.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.rules._rollout import sequences_per_replica, with_matching_limit
from tuner.rules._wording import count
from tuner.rules.case import Case
from tuner.workload import Phase

RULE = Rule(
    code="ROL005",
    name="max-sequences",
    summary="the limit on running sequences keeps sequences waiting beside an empty cache",
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Raise the limit to what cache and replica can use."""
    workload = case.workload
    proposal = with_matching_limit(workload)
    if proposal == workload or not case.pays(proposal):
        return None
    return Finding(
        rule=RULE,
        message=f"{count(workload.rollout.max_sequences)} of a replica's {count(sequences_per_replica(workload))}"
        f" sequences may run at once, and the cache holds {count(proposal.rollout.max_sequences)} at full length",
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=proposal,
    )
