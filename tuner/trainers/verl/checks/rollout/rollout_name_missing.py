"""No rollout engine named

What it checks
--------------
``rollout.name`` not set in a release where it has no default.
The override is vLLM, the default of the releases before.

Why it matters
--------------
The configuration holds ``???``, a mandatory value: verl stops as soon as it reads it.

When it does not apply
----------------------
Up to 0.5.0, where ``vllm`` is the default.

Sources
-------
verl 0.6.1, 0.7.1, 0.8.0, 0.9.1 ``trainer/config/rollout/rollout.yaml``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.workload import Workload

RULE = Rule(
    code="CFG137",
    name="rollout-name-missing",
    summary=N_("no rollout engine named where there is no default"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
)

REFUSED_BY = RefusedBy.HYDRA

_MANDATORY = Releases(since="0.6.0")
_KEY = f"{ROLLOUT}.name"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the name is missing."""
    if version in _MANDATORY and settings.get(_KEY) is None:
        yield report(
            RULE,
            settings,
            _("{key} is not set: {release} has no default engine; estimated as vllm").format(
                key=_KEY, release=workload.release
            ),
            keys=[_KEY],
            overrides=[assign(settings, _KEY, "vllm")],
        )
