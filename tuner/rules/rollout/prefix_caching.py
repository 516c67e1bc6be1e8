"""Compute a prompt once for all its responses

What it checks
--------------

Several responses are sampled per prompt, the engine does not keep prefixes, and keeping them shortens the step.

Why it matters
--------------

Group-based algorithms sample 8 to 64 responses per prompt.
With prefix caching all but the first find the prompt's keys and values in the cache.

When it does not apply
----------------------

One response per prompt, or prompts so short that computing them does not show.
Models with state-space layers need an engine that can cache their states.
The servers that verl 0.6.0 to 0.9.0 start are not told when the switch is off, and vLLM keeps prefixes by itself.

Sources
-------

verl 0.9.1, ``trainer/config/rollout/rollout.yaml`` (on by default).
vLLM, design document "Automatic Prefix Caching".
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.workload import Phase

RULE = Rule(
    code="ROL014",
    name="prefix-caching",
    summary=N_("every response computes its prompt anew"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Keep prefixes where responses share them."""
    workload = case.workload
    proposal = workload.with_rollout(prefix_caching=True)
    if (
        workload.generator.prefix_caching
        or workload.batch.responses_per_prompt < 2
        or not case.pays(proposal)
    ):
        return None
    return Finding(
        rule=RULE,
        message=_("{responses_per_prompt} responses share each prompt, and each computes it anew").format(
            responses_per_prompt=workload.batch.responses_per_prompt
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=proposal,
    )
