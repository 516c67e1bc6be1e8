"""Compute log-probabilities without the logits

What it checks
--------------

A pass of the actor or reference is over the limit with one sequence at a time, and a fused output head needs less.

Why it matters
--------------

Logits take two bytes per token and vocabulary entry, and up to six in training when entropy is compiled: 14 GiB for 16,384 tokens and 152,064 entries.
A fused head computes log-probability and entropy tile by tile; its scratch does not grow with tokens times vocabulary.
Measured on one H200, it takes the head out of the peak at every size tried.

When it does not apply
----------------------

A smaller micro-batch fits: the fused heads recompute the logits in the backward pass and are slower than the compiled head, up to three times in their torch version.
Some releases compute wrong values or crash for some models; only heads that are right for model and release are proposed.
Value heads have one column and nothing to fuse.

Sources
-------

verl 0.9.1, ``utils/experimental/torch_functional.py``, ``utils/kernel/linear_cross_entropy.py``.
verl #462, #1212; errors: #2656, #2899, #5349, #5633, #6913, #7520.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.rules.case import Case
from tuner.rules.cures import head_fused
from tuner.rules.ladder import cured
from tuner.rules.wording import over

RULE = Rule(
    code="KRN001",
    name="fused-head",
    summary="the logits of one sequence do not fit",
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Fuse the head where smaller micro-batches are not enough."""
    cure = cured(case, head_fused)
    if cure is None:
        return None
    phase, proposal = cure
    return Finding(
        rule=RULE,
        message=f"{over(case, phase)}, more than smaller micro-batches can help;"
        f" a fused head never holds the {case.workload.model.vocab:,} logits of a token",
        severity=case.severity(phase),
        evidence=Evidence.MEASURED,
        phase=phase,
        proposal=proposal,
    )
