"""Do not recompute the entropy

What it checks
--------------

The entropy of the training pass is checkpointed, and computing it once needs no more memory.

Why it matters
--------------

Checkpointing drops what the entropy saved and computes it again in the backward pass.
But the peak is in that backward pass, where the recomputed tensors exist all the same, beside one gradient more.
The published advice lowers what is held in between, not the peak, and costs time.

When it does not apply
----------------------

A pass that does not compute the entropy in training has nothing to recompute; the setting is without effect there.
What lowers the peak is a compiled entropy, a fused head, or fewer tokens.

Sources
-------

verl 0.9.1, ``workers/engine/fsdp/transformer_impl.py`` (checkpointed entropy).
verl documentation, performance tuning guide, "Memory optimization for entropy calculation from logits".
Bytes per logit measured on two H200 with verl 0.9.1 and torch 2.11.0, 2026-11-20: 26 eager with and without, 2 compiled with and without.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.rungs import with_head
from tuner.workload import HeadKind

RULE = Rule(
    code="KRN005",
    name="entropy-checkpointing",
    summary=N_("the entropy is computed twice, which does not lower the peak"),
    severity=Severity.ADVICE,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Compute the entropy once."""
    head = case.workload.actor.head
    if not head.checkpointed or head.kind is not HeadKind.LOGITS:
        return None
    proposal = with_head(case.workload, checkpointed=False)
    if not case.affords(proposal) or case.slower(proposal):
        return None
    message = (
        _("the checkpointed entropy is computed again in the backward pass, where the peak is")
        if case.workload.actor.update.entropy
        else _("the checkpointed entropy is not part of the training pass, so there is nothing to recompute")
    )
    return Finding(
        rule=RULE,
        message=message,
        severity=RULE.severity,
        evidence=Evidence.MEASURED,
        phase=case.workload.actor_update.phase,
        proposal=proposal,
    )
