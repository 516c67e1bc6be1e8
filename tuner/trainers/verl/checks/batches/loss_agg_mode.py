"""A loss aggregation that this release does not have

What it checks
--------------
``actor.loss_agg_mode`` outside the list of this release.
The override is the closest name, or the default.

Why it matters
--------------
verl compares with a fixed list and refuses to start.
``token-sum`` is in it from 0.9.0 on.

When it does not apply
----------------------
The critic's ``loss_agg_mode`` follows the actor's by default and is not compared.

Sources
-------
verl 0.4.1 ``trainer/ppo/ray_trainer.py:443-448``, 0.8.0 and 0.9.1 ``workers/config/actor.py`` (``ActorConfig.__post_init__``).
"""

from collections.abc import Iterator
from difflib import get_close_matches

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR
from tuner.workload import Workload

RULE = Rule(
    code="CFG140",
    name="loss-agg-mode",
    summary=N_("a loss aggregation that this release does not have"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

GUARDS = (CodeGuard(words="loss_agg_mode Invalid", releases=Releases(since="0.4.0")),)

_TOKEN_SUM = Releases(since="0.9.0")
_MODES = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")
_KEY = f"{ACTOR}.loss_agg_mode"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for a name that is not in the list."""
    mode = settings.text(_KEY, default="token-mean")
    known = (*_MODES, "token-sum") if version in _TOKEN_SUM else _MODES
    if mode in known:
        return
    closest = next(iter(get_close_matches(mode, known, n=1)), "token-mean")
    yield report(
        RULE,
        settings,
        _("{key}={mode} is none of {known}: {release} refuses to start").format(
            key=_KEY, mode=mode, known=", ".join(known), release=workload.release
        ),
        keys=[_KEY],
        overrides=[assign(settings, _KEY, closest)],
    )
