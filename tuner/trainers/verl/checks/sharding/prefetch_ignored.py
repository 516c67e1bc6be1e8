"""Forward prefetch under FSDP2 before it worked there

What it checks
--------------
``fsdp_config.forward_prefetch=True`` of the actor, the reference or the critic with ``strategy=fsdp2`` in a release that passes it to FSDP1 only.
The override removes the setting by giving it its default.

Why it matters
--------------
The next layer is gathered after the current one has run, as without the setting; nothing says so.

When it does not apply
----------------------
Under ``strategy=fsdp``, where the setting always worked, and from 0.8.0 on.

Sources
-------
verl 0.7.1 ``utils/fsdp_utils.py:534-559`` without, 0.8.0 lines 588-599 with it.
verl #6317.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.workload import Backend, Engine, Workload

RULE = Rule(
    code="CFG131",
    name="prefetch-ignored",
    summary=N_("forward prefetch that this release does not pass to FSDP2"),
    severity=Severity.WARNING,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)

_IGNORED = Releases(until="0.8.0")


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per role."""
    if version not in _IGNORED:
        return
    for section, engine in _sections(workload):
        key = f"{section}.forward_prefetch"
        if engine.backend is Backend.FSDP2 and settings.flag(key):
            yield report(
                RULE,
                settings,
                _("{key}=True does nothing under fsdp2: {release} passes it to FSDP1 only").format(
                    key=key, release=workload.release
                ),
                keys=[key],
                overrides=[assign(settings, key, False)],
            )


def _sections(workload: Workload) -> Iterator[tuple[str, Engine]]:
    yield "actor_rollout_ref.actor.fsdp_config", workload.actor.engine
    if workload.reference is not None:
        yield "actor_rollout_ref.ref.fsdp_config", workload.reference.engine
    if workload.critic is not None:
        yield "critic.model.fsdp_config", workload.critic.engine
