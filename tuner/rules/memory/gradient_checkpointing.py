"""Recompute activations when the update does not fit

What it checks
--------------

A training pass is over the limit and keeps the activations of all its layers.

Why it matters
--------------

Kept whole, a layer saves some 20 to 40 bytes per token and hidden unit; recomputed from its input, two.
That leaves room for larger micro-batches, for one more forward pass through the layers.

When it does not apply
----------------------

Everything fits without it: then recomputing only costs time.
The output head is not part of any layer, so its logits are not helped by this.

Sources
-------

verl documentation, performance tuning guide, "Batch Size Tuning Tips", first tip.
Megatron engines recompute nothing unless told to (verl 0.9.1, ``trainer/config/engine/megatron.yaml``).
Chen et al., "Training Deep Nets with Sublinear Memory Cost" (arXiv:1604.06174).
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due_proposal
from tuner.rules.rungs import checkpointed
from tuner.rules.wording import over

RULE = Rule(
    code="MEM002",
    name="gradient-checkpointing",
    summary=N_("a training pass does not fit and keeps all activations"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Recompute layers from their inputs."""
    rung = due_proposal(case, checkpointed)
    if rung is None:
        return None
    phase, proposal = rung
    return Finding(
        rule=RULE,
        message=_("{shortage} and keeps the activations of all layers").format(shortage=over(case, phase)),
        severity=case.severity(phase),
        evidence=Evidence.MODELLED,
        phase=phase,
        proposal=proposal,
    )
