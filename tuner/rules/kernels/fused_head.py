"""Compute log-probabilities without the logits

What it checks
--------------

A pass of the actor or reference is over the limit with one sequence at a time, and a fused output head needs less.
The same for an update whose loss every micro-batch averages over its own tokens, with the micro-batch that it has: there a smaller one is another gradient, and a fused head is not.

Why it matters
--------------

Logits take two bytes per token and vocabulary entry, and up to six in training when entropy is compiled: 14 GiB for 16,384 tokens and 152,064 entries.
A fused head computes log-probability and entropy tile by tile; its scratch does not grow with tokens times vocabulary.
In every pass that was measured it takes the head out of the peak.

When it does not apply
----------------------

A smaller micro-batch fits and leaves the loss as it is: the fused heads recompute the logits in the backward pass and are slower than the compiled head, up to three times in their torch version.
PyTorch's version returns log-probabilities in bfloat16 before 0.8.0, which is a decision about the training; where Triton's is right, it is proposed there.
Some releases compute wrong values or crash for some models; only heads that are right for model and release are proposed.
Value heads have one column and nothing to fuse.

Sources
-------

verl 0.9.1, ``utils/experimental/torch_functional.py``, ``utils/kernel/linear_cross_entropy.py``.
verl 0.7.1 and 0.8.0, the same: the dtype of what ``_fused_linear_for_ppo_fwd`` returns.
Peaks measured on two H200 with verl 0.9.1 and torch 2.11.0, 2026-11-20.
verl #462, #1212; errors: #2656, #2899, #5349, #5633, #5662, #6068, #6913, #7520.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due_proposal
from tuner.rules.rungs import head_fused, one_sequence
from tuner.rules.wording import over, rounded_head
from tuner.workload import Phase, Workload

RULE = Rule(
    code="KRN001",
    name="fused-head",
    summary=N_("the logits of one sequence, or of the micro-batch that the loss asks for, do not fit"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Fuse the head where smaller micro-batches are not enough."""
    rung = due_proposal(case, head_fused)
    text = _(
        "{shortage}, more than smaller micro-batches can help; a fused head never holds the {vocab:,} logits "
        "of a token"
    )
    if rung is None and case.workload.batch.loss_averages_micro_batches:
        rung = due_proposal(case, head_fused, among=(Phase.UPDATE_ACTOR, Phase.TRAIN), but=(one_sequence,))
        rung = None if rung is None or _rounds(rung[1]) else rung
        text = _(
            "{shortage}, and smaller micro-batches weight tokens differently; a fused head never holds the "
            "{vocab:,} logits of a token"
        )
    if rung is None:
        return None
    phase, proposal = rung
    return Finding(
        rule=RULE,
        message=text.format(shortage=over(case, phase), vocab=case.workload.model.vocab),
        severity=case.severity(phase),
        evidence=Evidence.MEASURED,
        phase=phase,
        proposal=proposal,
        notes=(rounded_head(),) if _rounds(proposal) else (),
    )


def _rounds(workload: Workload) -> bool:
    return workload.actor.head.kind in workload.actor.head.rounding
