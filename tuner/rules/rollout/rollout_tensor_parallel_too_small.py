"""Spread the rollout engine's weights over more GPUs

What it checks
--------------

The rollout engine cannot start, and no memory fraction that fits beside the trainer changes that.
The proposal is the smallest tensor-parallel size with which it starts.

Why it matters
--------------

Every GPU of a replica holds its share of the weights within the memory fraction.
When that share leaves no room for the cache of one sequence, the engine refuses to start.

When it does not apply
----------------------

A larger memory fraction is enough.
Above eight GPUs, or across nodes, the all-reduces of every layer cost more than the memory is worth.

Sources
-------

verl documentation, best practices, "memory x fraction x tensor-parallel size must exceed the weights".
vLLM, ``v1/core/kv_cache_utils.py``, ``check_enough_kv_cache_memory``.
"""

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, ngettext
from tuner.rules.case import Case
from tuner.rules.rollout_engine import least_fraction, starts, tensor_sizes
from tuner.rules.wording import gib
from tuner.workload import Phase, Workload

RULE = Rule(
    code="ROL009",
    name="rollout-tensor-parallel-too-small",
    summary=N_("the rollout engine's weights leave no room for a cache on so few GPUs"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Widen the replicas until the engine starts."""
    workload, rollout = case.workload, case.workload.generator
    if starts(workload):
        return None
    raised = least_fraction(workload)
    if raised is not None and case.affords(raised):
        return None
    wider = [
        _sized(workload, size)
        for size in tensor_sizes(workload.model, rollout, workload.cluster.gpus_per_node)
        if size > rollout.tensor_parallel and rollout.expert_parallel == 1
    ]
    proposal = next((other for other in wider if starts(other)), None)
    if proposal is None:
        return None
    return Finding(
        rule=RULE,
        message=ngettext(
            "{weights} of weights per GPU leave no cache for one sequence of {sequence_tokens:,} tokens; "
            "{gpus} per replica does",
            "{weights} of weights per GPU leave no cache for one sequence of {sequence_tokens:,} tokens; "
            "{gpus} per replica do",
            proposal.generator.tensor_parallel,
        ).format(
            weights=gib(case.rollout.weight_bytes),
            sequence_tokens=workload.batch.reached_tokens,
            gpus=counted(proposal.generator.tensor_parallel, "GPU"),
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=proposal,
    )


def _sized(workload: Workload, size: int) -> Workload:
    return workload.with_rollout(tensor_parallel=size)
