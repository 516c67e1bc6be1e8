"""The synchronous rollout mode, which is gone

What it checks
--------------
``rollout.mode=sync``.
The override is ``async``, the only mode left.

Why it matters
--------------
Up to 0.6.1 the engine ran inside the trainer's process by default.
0.7.0 removed that mode, and the configuration raises ``ValueError`` for it.
``async`` names the server that generates, not asynchronous training: a step still waits for its own responses.

When it does not apply
----------------------
Up to 0.6.1, where ``sync`` is the default.

Sources
-------
verl 0.7.1 and 0.9.1 ``workers/config/rollout.py`` (``__post_init__``).
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
    code="CFG119",
    name="sync-rollout-mode",
    summary=N_("the synchronous rollout mode, which this release no longer has"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

_GONE = Releases(since="0.7.0")

GUARDS = (
    CodeGuard(
        words="RolloutConfig mode sync", releases=_GONE, own=("omega_conf_to_dataclass", "fsdp_workers")
    ),
)
_KEY = f"{ROLLOUT}.mode"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for ``sync``."""
    if version not in _GONE or settings.text(_KEY) != "sync":
        return
    yield report(
        RULE,
        settings,
        _("{key}=sync raises ValueError: {release} generates in servers only").format(
            key=_KEY, release=workload.release
        ),
        keys=[_KEY],
        overrides=[assign(settings, _KEY, "async")],
    )
