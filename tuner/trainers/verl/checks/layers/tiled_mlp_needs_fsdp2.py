"""A tiled MLP under FSDP1

What it checks
--------------
``tiled_mlp.enabled=True`` of the actor or the critic with ``strategy=fsdp``.
The override moves that model to FSDP2.

Why it matters
--------------
The patched MLP reads its weights outside the unit that FSDP1 gathers, so the worker raises ``ValueError``.

When it does not apply
----------------------
From 0.8.0 on, where the setting does nothing; another check says so.

Sources
-------
verl 0.7.1 ``workers/fsdp_workers.py:370-371`` and 1428-1429.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, CRITIC, MODEL
from tuner.trainers.verl.releases import ENGINE_PREVIEW
from tuner.workload import Backend, Workload

RULE = Rule(
    code="CFG141",
    name="tiled-mlp-needs-fsdp2",
    summary=N_("a tiled MLP under FSDP1, which this release refuses"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

_RAISES = Releases(since="0.7.0", until=ENGINE_PREVIEW)

GUARDS = (CodeGuard(words="TiledMLP FSDP2 strategy", releases=_RAISES),)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per model."""
    if version not in _RAISES:
        return
    roles = [(f"{MODEL}.tiled_mlp.enabled", f"{ACTOR}.strategy", workload.actor.engine)]
    if workload.critic is not None:
        roles.append((f"{CRITIC}.model.tiled_mlp.enabled", f"{CRITIC}.strategy", workload.critic.engine))
    for key, strategy, engine in roles:
        if engine.backend is Backend.FSDP and settings.flag(key):
            yield report(
                RULE,
                settings,
                _("{key}=True with {strategy}=fsdp: {release} raises ValueError, it needs fsdp2").format(
                    key=key, strategy=strategy, release=workload.release
                ),
                keys=[key, strategy],
                overrides=[assign(settings, strategy, "fsdp2")],
            )
