"""A setting that minirl does not have.

Why
---
A name that is misspelt sets nothing.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.workload import Workload

RULE = Rule(
    code="MIN001",
    name="unknown-setting",
    summary="a setting that this release does not have",
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)


def check(settings: Settings, workload: Workload) -> list[Finding]:
    """One finding for each unknown key."""
    return [
        Finding(
            rule=RULE,
            message=f"{workload.release} has no {unknown.key}; the nearest known one is {unknown.nearest}",
            severity=RULE.severity,
            evidence=Evidence.EXACT,
            keys=(unknown.key,),
            location=unknown.location,
        )
        for unknown in settings.unknown
    ]
