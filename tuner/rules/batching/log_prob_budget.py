"""Let the forward-only pass of the actor take more than the update

What it checks
--------------

The actor's log-probability pass takes no more at a time than fits, and a larger budget or micro-batch shortens the step.

Why it matters
--------------

Without a backward pass no activations are kept, so far more tokens fit than in the update.
Each micro-batch gathers all weights, so fewer of them save time.

When it does not apply
----------------------

The entropy of this pass is computed eagerly: then a forward-only token can need more memory than a training token, fourteen bytes per vocabulary entry against two to six.
The advice to double the training size is therefore computed here, not assumed.

Sources
-------

verl documentation, performance tuning guide, "Use larger forward-only parameters".
verl 0.9.1, ``trainer/ppo/v1/trainer_base.py`` (entropy is on in this pass), ``workers/engine/fsdp/transformer_impl.py``.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, ngettext
from tuner.rules.case import Case
from tuner.rules.passes import beyond, larger, site_of
from tuner.rules.wording import longest
from tuner.workload import Phase

RULE = Rule(
    code="BAT006",
    name="log-prob-budget",
    summary=N_("the actor's forward-only pass can take more at a time"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Raise the size of the actor's forward-only pass."""
    workload = case.workload
    site = site_of(workload, Phase.OLD_LOG_PROB)
    if site is None or site.size(workload) < 1:
        return None
    size = larger(case, site)
    if size is None:
        return None
    return Finding(
        rule=RULE,
        message=ngettext(
            "{phase} keeps no activations, yet takes {sequences} at a time; {size} fits",
            "{phase} keeps no activations, yet takes {sequences} at a time; {size} fit",
            size,
        ).format(phase=site.phase.value, sequences=longest(site.size(workload)), size=size),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=site.phase,
        proposal=site.resized(workload, size),
        notes=beyond(case, site, size),
    )
