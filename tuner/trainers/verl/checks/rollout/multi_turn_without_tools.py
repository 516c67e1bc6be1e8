"""Several turns without tools or an interaction

What it checks
--------------
``rollout.multi_turn.enable=True`` in a release that asserts a ``tool_config_path`` or an ``interaction_config_path``, and GRPO.

Why it matters
--------------
0.4.1 can play no role by itself, and was tested with GRPO only: it stops when it checks the configuration.

When it does not apply
----------------------
From 0.5.0 on neither is asserted.

Sources
-------
verl 0.4.1 ``trainer/ppo/ray_trainer.py:477-479``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.workload import Workload

RULE = Rule(
    code="CFG157",
    name="multi-turn-without-tools",
    summary=N_("several turns without tools or an interaction, which 0.4.1 refuses"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

_ASSERTED = Releases(since="0.4.0", until="0.5.0")

GUARDS = (CodeGuard(words="tool_config_path multi_turn", releases=_ASSERTED),)
_TURNS = f"{ROLLOUT}.multi_turn"
_SOURCES = (f"{_TURNS}.tool_config_path", f"{_TURNS}.interaction_config_path")
_ESTIMATOR = "algorithm.adv_estimator"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for the tools, and one for the estimator."""
    switch = f"{_TURNS}.enable"
    if version not in _ASSERTED or not settings.flag(switch):
        return
    if all(settings.get(key) is None for key in _SOURCES):
        yield report(
            RULE,
            settings,
            _("{switch}=True with neither {tools} nor {interaction}: {release} asserts one").format(
                switch=switch, tools=_SOURCES[0], interaction=_SOURCES[1], release=workload.release
            ),
            keys=[switch, *_SOURCES],
        )
    estimator = settings.text(_ESTIMATOR)
    if estimator != "grpo":
        yield report(
            RULE,
            settings,
            _("{switch}=True with {key}={estimator}: {release} asserts grpo").format(
                switch=switch, key=_ESTIMATOR, estimator=estimator, release=workload.release
            ),
            keys=[_ESTIMATOR, switch],
        )
