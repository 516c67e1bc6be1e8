"""Log-probabilities that the trainer takes from a rollout engine that does not return them

What it checks
--------------
``algorithm.rollout_correction.bypass_mode=True`` with ``actor_rollout_ref.rollout.calculate_log_probs=False``, which is the default before verl 0.9.0.
The override has the engine return them.

Why it matters
--------------
Bypass mode leaves the actor's own pass out and puts what the engine returned in its place.
Without that the first step ends: verl raises ``ValueError``, or asks its queue of tensors for a field that nobody wrote.

When it does not apply
----------------------
Trainers that run the rollout apart ask for the log-probabilities by themselves, and a rule of their own says so.

Sources
-------
verl 0.6.1 ``trainer/ppo/rollout_corr_helper.py:932``, 0.7.1 there (``apply_bypass_mode``); 0.8.0 ``trainer/main_ppo_sync.py:1309``, 0.9.1 ``trainer/ppo/v1/trainer_base.py:1641``.
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
    code="CFG214",
    name="bypass-without-log-probs",
    summary=N_("log-probabilities of the rollout engine that it does not return"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

_REFUSES = Releases(since="0.6.1")

GUARDS = (CodeGuard(words="bypass_mode rollout_log_probs", releases=_REFUSES),)
_BYPASS = "algorithm.rollout_correction.bypass_mode"
_RETURNS = f"{ROLLOUT}.calculate_log_probs"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the engine is asked for none."""
    if version not in _REFUSES or settings.get(_BYPASS) is not True or settings.get(_RETURNS) is not False:
        return
    text = _(
        "{bypass}=True takes the log-probabilities that the rollout engine returns, and with {key}=False it "
        "returns none: {release} ends in the first step"
    )
    yield report(
        RULE,
        settings,
        text.format(bypass=_BYPASS, key=_RETURNS, release=workload.release),
        keys=[_BYPASS, _RETURNS],
        overrides=[assign(settings, _RETURNS, True)],
    )
