"""Sampling in validation at temperature 0

What it checks
--------------
``rollout.val_kwargs.do_sample=True`` while ``rollout.temperature`` is 0.
The override validates greedily.

Why it matters
--------------
verl asserts at start-up that the temperature is above 0 when validation samples.
It looks at the training temperature, not at ``val_kwargs.temperature``.

When it does not apply
----------------------
A validation temperature of 0 alone is allowed: the engine then decodes greedily.

Sources
-------
verl 0.4.1 ``trainer/ppo/ray_trainer.py:473-474``, verl 0.9.1 ``utils/config.py`` ("check eval config").
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.workload import Workload

RULE = Rule(
    code="CFG118",
    name="val-temperature",
    summary=N_("sampling in validation while the temperature is 0"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

GUARDS = (CodeGuard(words="val_kwargs temperature"),)

_SAMPLE = f"{ROLLOUT}.val_kwargs.do_sample"
_TEMPERATURE = f"{ROLLOUT}.temperature"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where both are set so."""
    temperature = settings.number(_TEMPERATURE, default=1.0)
    if not settings.flag(_SAMPLE) or temperature > 0:
        return
    yield report(
        RULE,
        settings,
        _("{sample}=True with {key}={temperature:g}: {release} asserts a temperature above 0").format(
            sample=_SAMPLE, key=_TEMPERATURE, temperature=temperature, release=workload.release
        ),
        keys=[_TEMPERATURE, _SAMPLE],
        overrides=[assign(settings, _SAMPLE, False)],
    )
