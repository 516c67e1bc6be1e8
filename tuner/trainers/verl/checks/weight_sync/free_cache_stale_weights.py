"""A rollout that never gets new weights

What it checks
--------------
``rollout.free_cache_engine=False`` with ``rollout.mode=async`` in a release that sends the weights while it wakes the engine up.
The override lets the engine sleep between generations.

Why it matters
--------------
In 0.5.0 and 0.6.1 the asynchronous rollout calls ``wake_up`` only where the engine was put to sleep, and the weights are sent in ``wake_up``.
Without sleep every step generates with the weights of step 0; rewards stand still and nothing fails.

When it does not apply
----------------------
``rollout.mode=sync``, the default of these releases, which sends the weights before every generation.
From 0.7.0 on the weights are sent apart from sleeping and waking.

Sources
-------
verl 0.5.0 ``experimental/agent_loop/agent_loop.py:495-496``, 0.6.1 lines 759-760.
verl #3442, #4248, #5738.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.workload import Workload

RULE = Rule(
    code="CFG128",
    name="free-cache-stale-weights",
    summary=N_("a rollout that is never given new weights"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)

_SENT_ON_WAKING = Releases(since="0.5.0", until="0.7.0")
_KEY, _MODE = f"{ROLLOUT}.free_cache_engine", f"{ROLLOUT}.mode"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for an asynchronous engine that does not sleep."""
    if version not in _SENT_ON_WAKING or settings.flag(_KEY, default=True) or settings.text(_MODE) != "async":
        return
    yield report(
        RULE,
        settings,
        _(
            "{key}=False with {mode}=async: {release} sends new weights only to an engine that "
            "slept, so every step generates with the first weights"
        ).format(key=_KEY, mode=_MODE, release=workload.release),
        keys=[_KEY, _MODE],
        overrides=[assign(settings, _KEY, True)],
    )
