"""Share model states among all GPUs when memory is short

What it checks
--------------

A phase is over the limit, FSDP keeps more than one copy of the model states, and one copy lowers the phase's peak.

Why it matters
--------------

With hybrid sharding each group of ranks holds a copy of its own of weights, gradients and moments, 16 bytes per parameter in all.
Shared among twice the ranks they take half on each.
What it costs is that weights are gathered across groups, which are usually nodes; the time model counts that.

When it does not apply
----------------------

Smaller changes bring the phase under the limit.
All ranks share one copy already, as they do by default.
Megatron shards by its parallel sizes instead.

Sources
-------

verl 0.9.1, ``workers/engine/fsdp/utils.py`` (``create_device_mesh``), 0.7.1 ``workers/fsdp_workers.py``.
Zhao et al. 2023, PyTorch FSDP, arXiv:2304.11277, section 3.2.2 on hybrid sharding.
"""

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due_proposal
from tuner.rules.rungs import engine_of, fully_sharded
from tuner.rules.wording import count, over

RULE = Rule(
    code="MEM014",
    name="full-sharding",
    summary=N_("several copies of the model states are kept while memory is short"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Share one copy among all ranks."""
    rung = due_proposal(case, fully_sharded)
    if rung is None:
        return None
    phase, proposal = rung
    parallel = engine_of(case.workload, phase).parallel
    text = (
        _("{shortage}; {ranks} has a copy of the model states to itself, and all {gpus} could")
        if parallel.shard == 1
        else _("{shortage}; {ranks} share a copy of the model states, and all {gpus} could")
    )
    return Finding(
        rule=RULE,
        message=text.format(
            shortage=over(case, phase), ranks=counted(parallel.shard, "rank"), gpus=count(parallel.gpus)
        ),
        severity=case.severity(phase),
        evidence=Evidence.EXACT,
        phase=phase,
        proposal=proposal,
    )
