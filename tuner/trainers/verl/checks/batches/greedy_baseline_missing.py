"""ReMax under a trainer that generates no greedy response

What it checks
--------------
``algorithm.adv_estimator=remax`` under the V1 trainer.
The override takes PPO's older trainer, which generates one greedy response to each prompt.

Why it matters
--------------
ReMax subtracts the reward of a greedy response.
The V1 trainer generates none and hands no ``reward_baselines`` on, without which the estimator raises ``TypeError`` behind the first generation.

When it does not apply
----------------------
Up to 0.8.0 and with ``trainer.use_v1=False``.

Sources
-------
verl 0.9.1 ``trainer/ppo/v1/trainer_base.py:1743-1785`` (``_compute_advantage``), ``trainer/ppo/ray_trainer.py:257-259`` (``compute_advantage``), ``trainer/ppo/core_algos.py:734-742`` (``compute_remax_outcome_advantage``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.source import source_of
from tuner.workload import Workload

RULE = Rule(
    code="CFG199",
    name="greedy-baseline-missing",
    summary=N_("ReMax under a trainer that generates no greedy response"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
)

GUARDS = (
    CodeGuard(
        words="_compute_advantage compute_advantage_for_multi_trajectories adv_estimator",
        unless="_add_remax_reward_baselines",
        fails=True,
        releases=Releases(since="0.9.0"),
    ),
)

_ESTIMATOR = "algorithm.adv_estimator"
_V1 = "trainer.use_v1"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding where the estimator gets no baseline."""
    if settings.text(_ESTIMATOR, default="") != "remax" or not source_of(settings, version).v1_trainer:
        return
    yield report(
        RULE,
        settings,
        _(
            "{key}=remax under the V1 trainer: {release} generates no greedy responses there, and ReMax raises "
            "TypeError without their rewards"
        ).format(key=_ESTIMATOR, release=workload.release),
        keys=[_ESTIMATOR],
        overrides=[assign(settings, _V1, False)],
    )
