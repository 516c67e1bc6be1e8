"""Let the reference take more at a time than the update

What it checks
--------------

The reference's forward pass takes no more at a time than fits, and a larger budget or micro-batch shortens the step.

Why it matters
--------------

A reference under FSDP keeps its weights on the host and fetches all of them again for every micro-batch.
Few large micro-batches are worth more here than anywhere else.
The reference computes no entropy, so a token costs less than in the actor's pass.

When it does not apply
----------------------

The reference is the actor with its adapters switched off, and its passes are as large as they need to be.

Sources
-------

verl documentation, performance tuning guide, "Use larger forward-only parameters".
verl 0.9.1, ``workers/engine/fsdp/transformer_impl.py`` (forward-only engines are always offloaded).
verl #7182.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, ngettext
from tuner.rules.case import Case
from tuner.rules.passes import beyond, larger, site_of
from tuner.rules.wording import longest
from tuner.workload import Phase

RULE = Rule(
    code="BAT007",
    name="reference-budget",
    summary=N_("the reference's forward pass can take more at a time"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Raise the size of the reference's pass."""
    workload = case.workload
    site = site_of(workload, Phase.REF_LOG_PROB)
    if site is None or site.size(workload) < 1:
        return None
    size = larger(case, site)
    if size is None:
        return None
    text = (
        ngettext(
            "the reference takes {sequences} at a time and fetches its weights from the host for each; "
            "{size} fits",
            "the reference takes {sequences} at a time and fetches its weights from the host for each; "
            "{size} fit",
            size,
        )
        if site.engine.streamed_offload
        else ngettext(
            "the reference takes {sequences} at a time; {size} fits",
            "the reference takes {sequences} at a time; {size} fit",
            size,
        )
    )
    return Finding(
        rule=RULE,
        message=text.format(sequences=longest(site.size(workload)), size=size),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=site.phase,
        proposal=site.resized(workload, size),
        notes=beyond(case, site, size),
    )
