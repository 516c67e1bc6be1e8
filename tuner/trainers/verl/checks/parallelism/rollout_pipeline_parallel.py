"""Pipeline parallelism of the rollout

What it checks
--------------
``rollout.pipeline_model_parallel_size`` above 1.
The override is 1; a model that is too large for one GPU needs a larger tensor-parallel size.

Why it matters
--------------
The setting exists, but verl raises ``NotImplementedError`` for every engine that it can run.

When it does not apply
----------------------
Pipeline parallelism of the trainer under Megatron, which works.

Sources
-------
verl 0.6.1, 0.7.1, 0.8.0, 0.9.1 ``workers/config/rollout.py`` (``__post_init__``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.workload import Workload

RULE = Rule(
    code="CFG114",
    name="rollout-pipeline-parallel",
    summary=N_("pipeline parallelism of the rollout, which is not implemented"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

_RAISES = Releases(since="0.6.0")

GUARDS = (CodeGuard(words="pipeline_model_parallel_size rollout", releases=_RAISES),)
_KEY = f"{ROLLOUT}.pipeline_model_parallel_size"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding above 1."""
    stages = settings.integer(_KEY, default=1)
    if version not in _RAISES or stages == 1:
        return
    yield report(
        RULE,
        settings,
        _(
            "{key}={stages} raises NotImplementedError: {release} has no pipeline parallelism in the rollout"
        ).format(key=_KEY, stages=stages, release=workload.release),
        keys=[_KEY],
        overrides=[assign(settings, _KEY, 1)],
    )
