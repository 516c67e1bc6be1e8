"""Several responses of the rollout beside environments that make the group

What it checks
--------------
``rollout.n`` other than 1 in a copy of verl that plays environments, as verl-agent does.
The override is 1; the group of a prompt is ``env.rollout.n``.

Why it matters
--------------
Every prompt is played by ``env.rollout.n`` environments, each of which gets one response a turn.
The trainer asserts that the rollout makes one, before any model is loaded.
A copy may have another default in its own configuration, so that a launch is refused that sets nothing.

When it does not apply
----------------------
Jobs without environments, where ``rollout.n`` is the group.

Sources
-------
verl-agent at commit 8ca3a46 of its copy xlan156/verl-agent ``verl/trainer/main_ppo.py`` (``run``): ``assert config.actor_rollout_ref.rollout.n == 1``.
verl 0.4.0 ``trainer/main_ppo.py`` has no such assertion.
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
    code="CFG192",
    name="responses-beside-environments",
    summary=N_("several responses of the rollout beside environments that make the group"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,  # no job runs with another value
    refuses=True,
)

_NONE = Releases(since="0.4.0", until="0.4.0")  # copies of verl-agent alone have it
GUARDS = (CodeGuard(words="actor_rollout_ref rollout n", file="trainer/main_", packaged=_NONE),)
_KEY = f"{ROLLOUT}.n"
_GROUP = "env.rollout.n"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for another number than 1."""
    if settings.program is None or _GROUP not in settings:
        return
    responses = settings.integer(_KEY, default=1, minimum=1)
    if responses == 1:
        return
    yield report(
        RULE,
        settings,
        _("{key}={responses}: the trainer asserts 1, and takes the group of a prompt from {group}").format(
            key=_KEY, responses=responses, group=_GROUP
        ),
        keys=[_KEY],
        overrides=[assign(settings, _KEY, 1)],
    )
