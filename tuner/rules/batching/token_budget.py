"""Give the update the largest token budget that pays

What it checks
--------------

The update's token budget is smaller than what fits, and a larger one shortens the step.
The proposal is a whole multiple of the longest sequence: at least three where they fit, and twice as many as long as that makes the step one percent shorter.

Why it matters
--------------

Every micro-batch gathers all weights, reduces all gradients and launches all kernels once more.
A budget of one longest sequence also packs badly, since two sequences of more than half the length never share a micro-batch.
The usual advice of two to three times the longest sequence holds only if logits and activations of that many tokens fit; here that is computed.

When it does not apply
----------------------

The mini-batch of one rank is smaller than the budget.
Releases that may exceed the budget are sized with what they really reach.
A budget below one longest sequence is an error of its own.

Sources
-------

verl documentation, performance tuning guide, "Dynamic Batch Size Tuning Tips", first tip.
verl 0.9.1, ``utils/seqlen_balancing.py`` (hard limit); earlier releases exceed it (verl #6735, #7553).
"""

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, ngettext
from tuner.rules.case import Case
from tuner.rules.passes import actor_update, beyond, larger

RULE = Rule(
    code="BAT002",
    name="token-budget",
    summary=N_("a larger token budget for the update fits and is faster"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Raise the budget of the update."""
    workload = case.workload
    site = actor_update(workload)
    if not site.dynamic or site.size(workload) < 1:
        return None
    size = larger(case, site)
    if size is None:
        return None
    return Finding(
        rule=RULE,
        message=ngettext(
            "the update takes {tokens} per GPU, {times} its share of the longest sequence; {larger} fits",
            "the update takes {tokens} per GPU, {times} its share of the longest sequence; {larger} fit",
            size,
        ).format(
            tokens=counted(site.one_pass.batching.token_budget, "token"),
            times=counted(site.size(workload), "time"),
            larger=counted(size, "time"),
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=site.phase,
        proposal=site.resized(workload, size),
        notes=beyond(case, site, size),
    )
