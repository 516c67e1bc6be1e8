"""Lower the size of a forward-only pass until it fits

What it checks
--------------

A pass that computes log-probabilities or values is over the limit, and fewer tokens or sequences at a time need less.
The proposal is the largest size that fits, for the worst such pass.

Why it matters
--------------

A forward-only pass keeps no activations, but the logits of all its tokens exist at once, twice where the temperature is not one, and seven times where entropy is computed eagerly in float32.
With sizes copied from the update, or doubled as is often advised, this pass can be the one that fails.

When it does not apply
----------------------

Compiling the entropy is enough: it is free and named first.

Sources
-------

verl 0.9.1, ``workers/engine/fsdp/transformer_impl.py``, ``utils/torch_functional.py``.
verl #456, #2828, #7582.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due
from tuner.rules.passes import site_of, smaller
from tuner.rules.rungs import one_sequence
from tuner.rules.wording import longest, over
from tuner.workload import Phase

RULE = Rule(
    code="BAT010",
    name="forward-budget-too-large",
    summary=N_("a forward-only pass does not fit and a smaller size helps"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
)

FORWARD = (Phase.REWARD, Phase.OLD_LOG_PROB, Phase.REF_LOG_PROB, Phase.VALUES)


def check(case: Case) -> Finding | None:
    """Lower the size of every forward-only pass that does not fit."""
    workload, proposal = case.workload, case.workload
    worst = due(case, one_sequence, among=FORWARD)
    if worst is None:
        return None
    for phase in FORWARD:
        site = site_of(workload, phase)
        lowered = None if site is None or case.short(phase) is None else smaller(case, site)
        changed = None if lowered is None else site_of(lowered, phase)
        if site is not None and changed is not None:
            proposal = site.put(proposal, changed.one_pass)
    if not case.lowers_much(proposal, worst):
        return None
    site = site_of(workload, worst)
    size = 0.0 if site is None else site.size(workload)
    return Finding(
        rule=RULE,
        message=_("{shortage} with {sequences} at a time").format(
            shortage=over(case, worst), sequences=longest(size)
        ),
        severity=case.severity(worst),
        evidence=Evidence.MODELLED,
        phase=worst,
        proposal=proposal,
    )
