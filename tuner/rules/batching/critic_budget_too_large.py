"""Lower the size of the critic's update until it fits

What it checks
--------------

The critic's training pass is over the limit, and fewer tokens or sequences at a time need less.
The proposal is the largest size that fits.

Why it matters
--------------

A critic has no logits, but it keeps activations like the actor, beside the actor's own states.
Sizes of two to four times the actor's, as often advised, fit only if those do.

When it does not apply
----------------------

Model states alone are over the limit.
The release ignores the critic's own sizes; a check of the trainer says so.

Sources
-------

verl documentation, performance tuning guide, "Allow larger micro-batch sizes for critic and reward models".
verl #7462, #7465.
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
    code="BAT011",
    name="critic-budget-too-large",
    summary=N_("the critic's update does not fit and a smaller size helps"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Lower the size of the critic's training pass."""
    site = site_of(case.workload, Phase.UPDATE_CRITIC)
    if site is None or due(case, one_sequence, among=(Phase.UPDATE_CRITIC,)) is None:
        return None
    proposal = smaller(case, site)
    if proposal is None or not case.lowers_much(proposal, site.phase):
        return None
    return Finding(
        rule=RULE,
        message=_("{shortage} with {sequences} at a time").format(
            shortage=over(case, site.phase), sequences=longest(site.size(case.workload))
        ),
        severity=case.severity(site.phase),
        evidence=Evidence.MODELLED,
        phase=site.phase,
        proposal=proposal,
    )
