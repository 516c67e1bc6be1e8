"""Weigh a fused head against smaller micro-batches

What it checks
--------------

A pass of the actor or reference is over the limit, logits are the largest part of its peak, and a fused output head alone brings it within.
Smaller micro-batches do so as well, else another rule proposes the head.

Why it matters
--------------

Micro-batches that are sized for the logits of a large vocabulary are small ones for all other layers, and every one of them gathers the weights of each layer anew.
A fused head computes log-probability and entropy tile by tile, so that micro-batches can stay as they are.

When it does not apply
----------------------

It is never part of what is to be pasted: the fused heads recompute the logits in the backward pass and are slower than the compiled head, up to three times in their torch version, so smaller micro-batches come first.
The price beside it says what a step takes with it.
Some releases compute wrong values or crash for some models; only heads that are right for model and release are named.
PyTorch's version returns log-probabilities in bfloat16 before 0.8.0, which the finding says.
Where the loss averages each micro-batch over its own tokens, none may be smaller, and another rule proposes a head that does not round.
An entropy in chunks saves nothing where the head is compiled; the rule of the vocabulary-parallel head speaks of it.

Sources
-------

verl 0.9.1, ``utils/experimental/torch_functional.py``, ``utils/kernel/linear_cross_entropy.py``.
verl documentation, performance tuning guide, "Enable fused kernels".
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.memory import Item
from tuner.rules.case import Case
from tuner.rules.ladder import due
from tuner.rules.rungs import head_fused
from tuner.rules.wording import gib, over, rounded_head
from tuner.workload import Phase

RULE = Rule(
    code="KRN009",
    name="fused-head-instead",
    summary=N_("logits are most of what does not fit, and a fused head never holds them"),
    severity=Severity.ADVICE,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
    yours=True,
)

_UPDATES = (Phase.UPDATE_ACTOR, Phase.TRAIN)
_PHASES = (*_UPDATES, Phase.OLD_LOG_PROB, Phase.REF_LOG_PROB)


def check(case: Case) -> Finding | None:
    """Name the fused head where logits are the largest part of a peak that smaller micro-batches lower."""
    short = case.short(*_PHASES)
    if short is None or due(case, head_fused) is not None:
        return None
    logits = short.bytes_of(Item.LOGITS)
    if logits < max(map(short.bytes_of, Item)):
        return None
    proposal = head_fused(case.workload, short.phase)
    rounds = proposal.actor.head.kind in proposal.actor.head.rounding
    if case.workload.batch.loss_averages_micro_batches and short.phase in _UPDATES and not rounds:
        return None  # no micro-batch may be smaller there, and the head is proposed
    if proposal == case.workload or not case.eases(proposal, short.phase):
        return None
    return Finding(
        rule=RULE,
        message=_(
            "{shortage}; {logits} of its peak are logits, and a fused head holds none of them with "
            "micro-batches as they are"
        ).format(shortage=over(case, short.phase), logits=gib(logits)),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=short.phase,
        proposal=proposal,
        notes=(rounded_head(),) if rounds else (),
    )
