"""Save Megatron's optimizer as the ranks hold it

What it checks
--------------

A checkpoint puts the optimizer of each rank's slice together, and there is no room for it while it is saved: on the card, or in the host memory that a node has.
The proposal writes what each rank has.

Why it matters
--------------

Every GPU gathers main weights and both moments of its slice in float32, over all data-parallel ranks, and copies them to the host.
The job runs until the first checkpoint and ends there.

When it does not apply
----------------------

A checkpoint that is put together can be read with any parallel sizes.
One in shards can be read with another number of data-parallel ranks, but with the same tensor, pipeline and expert parallel sizes only.
Where that is needed, the optimizer can be gathered by way of the host, on one rank alone, which takes longer.

Sources
-------

verl documentation, checkpoints; 0.7.1 ``utils/checkpoint/megatron_checkpoint_manager.py``.
Megatron-Core 0.15, ``optimizer/distrib_optimizer.py`` (``sharded_param_state_fully_reshardable``, ``sharded_param_state_dp_reshardable``).
verl #5670, #5183.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case, figures
from tuner.rules.ladder import due
from tuner.rules.rungs import optimizer_in_shards
from tuner.rules.wording import gib
from tuner.workload import Phase, Workload

RULE = Rule(
    code="MEM015",
    name="optimizer-in-shards",
    summary=N_("there is no room for the optimizer that a checkpoint puts together"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.EXACT,
)

_LOSS = N_(
    "The checkpoint can then be read with the same tensor, pipeline and expert parallel "
    "sizes only; the number of data-parallel ranks may change."
)


def check(case: Case) -> Finding | None:
    """Write what each rank has."""
    proposal = optimizer_in_shards(case.workload, Phase.SAVE_CHECKPOINT)
    reason = _reason(case, proposal)
    if reason is None:
        return None
    return Finding(
        rule=RULE,
        message=_("{reason}, for an optimizer that a checkpoint puts together").format(reason=reason),
        severity=case.severity(Phase.SAVE_CHECKPOINT),
        evidence=Evidence.MODELLED,
        phase=Phase.SAVE_CHECKPOINT,
        proposal=proposal,
        notes=(_(_LOSS),),
    )


def _reason(case: Case, proposal: Workload) -> str | None:
    """Where room is missing, None where it is not."""
    estimate, phase = case.estimate, case.estimate.phase(Phase.SAVE_CHECKPOINT)
    if phase is not None and due(case, optimizer_in_shards) is not None:
        least, most = phase.peak_bytes, phase.interval[1]
        text = (
            _("{phase} needs {peak} where {limit} may be used")
            if least == most
            else _("{phase} needs {peak}, up to {most}, where {limit} may be used")
        )
        return text.format(
            phase=phase.phase.value, peak=gib(least), most=gib(most), limit=gib(case.limit_bytes)
        )
    capacity = estimate.host_capacity_bytes
    if capacity is None or not estimate.host_is_short:
        return None
    if figures(proposal).memory.host_bytes >= estimate.host_bytes:
        return None
    return _("a node's host memory would hold {host} of {capacity}").format(
        host=gib(estimate.host_bytes), capacity=gib(capacity)
    )
