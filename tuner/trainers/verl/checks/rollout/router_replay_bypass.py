"""Router replay of a pass that is left out

What it checks
--------------
``router_replay.mode=R2`` together with ``algorithm.rollout_correction.bypass_mode=True``.
The override computes the old log-probabilities again.

Why it matters
--------------
R2 records the routes of experts while the actor recomputes old log-probabilities, and bypass mode leaves that pass out.
From 0.9.1 on verl raises ``ValueError``; before, nothing is recorded.

When it does not apply
----------------------
R3 takes the routes of the rollout, and goes with bypass mode.

Sources
-------
verl 0.9.1 ``utils/config.py`` (``_validate_router_replay_config``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, shards_with_fsdp
from tuner.workload import Workload

RULE = Rule(
    code="CFG158",
    name="router-replay-bypass",
    summary=N_("router replay that would record a pass that is left out"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

_REFUSES = Releases(since="0.9.1")

GUARDS = (CodeGuard(words="router_replay bypass_mode", releases=_REFUSES),)
_BYPASS = "algorithm.rollout_correction.bypass_mode"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where both are set so."""
    key = f"{ACTOR}.{'' if shards_with_fsdp(workload) else 'megatron.'}router_replay.mode"
    if version not in _REFUSES or settings.get(key) != "R2" or not settings.flag(_BYPASS):
        return
    yield report(
        RULE,
        settings,
        _(
            "{key}=R2 with {bypass}=True: {release} raises ValueError, since the pass that R2 "
            "records is left out"
        ).format(key=key, bypass=_BYPASS, release=workload.release),
        keys=[_BYPASS, key],
        overrides=[assign(settings, _BYPASS, False)],
    )
