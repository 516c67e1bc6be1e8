"""Reduce gradients after every micro-batch when memory is short

What it checks
--------------

A training pass is over the limit, has more than one micro-batch, and synchronises gradients only in the last.

Why it matters
--------------

Until then every GPU accumulates the gradient of the whole model: two bytes per parameter under FSDP1, four under FSDP2, not divided by the number of GPUs.
For a 7B model under FSDP2 that is 28 GiB, which the documentation calls slight.
Reducing every time costs one reduce-scatter per micro-batch, most of which hides behind computation.

When it does not apply
----------------------

One micro-batch per mini-batch, or the pass fits with the whole gradient.
One release defers always and has no switch: then fewer micro-batches or another release are what helps.

Sources
-------

torch, ``distributed/fsdp/_fully_shard/_fsdp_param.py`` (``unsharded_accumulated_grad``); measured on two H200 with verl 0.9.1 and torch 2.11.0, 2026-11-20.
verl #7095, #7458, #7719.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due_proposal
from tuner.rules.rungs import gradients_synchronised
from tuner.rules.wording import gib, over

RULE = Rule(
    code="SYN004",
    name="deferred-gradient-sync",
    summary=N_("a full gradient is kept on every GPU while memory is short"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Synchronise gradients after every micro-batch."""
    rung = due_proposal(case, gradients_synchronised)
    if rung is None:
        return None
    phase, proposal = rung
    saved = case.peak_bytes(phase) - case.with_workload(proposal).peak_bytes(phase)
    return Finding(
        rule=RULE,
        message=_(
            "{shortage}; waiting with the reduction keeps the whole model's gradient on every GPU, {saved} more"
        ).format(shortage=over(case, phase), saved=gib(saved)),
        severity=case.severity(phase),
        evidence=Evidence.MEASURED,
        phase=phase,
        proposal=proposal,
    )
