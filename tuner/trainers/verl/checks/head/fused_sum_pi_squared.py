"""The sum of squared probabilities with the fused output head

What it checks
--------------
``actor.calculate_sum_pi_squared=True`` together with ``model.use_fused_kernels=True``.
The override switches the fused head off.

Why it matters
--------------
The sum needs all logits, which the fused head never has.
From 0.8.0 on the engines, Megatron's as well, raise ``NotImplementedError`` in their first pass.
The worker of 0.7.1 computes no sum beside a fused head and then reads it: it stops with an ``UnboundLocalError``.

When it does not apply
----------------------
Under Megatron and with the new workers of 0.7.1, which compute no sum.
Before 0.7.1, which does not have the key.

Sources
-------
verl 0.7.1 ``workers/actor/dp_actor.py:247-332``.
verl 0.8.0 ``workers/engine/fsdp/transformer_impl.py:1077-1080`` and ``workers/engine/megatron/transformer_impl.py:836-840``; 0.9.1 lines 1343-1346 and 1272-1276.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, MODEL, shards_with_fsdp
from tuner.trainers.verl.releases import ENGINE_PREVIEW
from tuner.workload import Workload

RULE = Rule(
    code="CFG127",
    name="fused-sum-pi-squared",
    summary=N_("the sum of squared probabilities with a fused output head"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

GUARDS = (CodeGuard(words="calculate_sum_pi_squared use_fused_kernels", releases=Releases(since="0.7.1")),)

_RAISES = Releases(since="0.8.0")
_STOPS = Releases(since="0.7.1", until=ENGINE_PREVIEW)
_SUM, _FUSED = f"{ACTOR}.calculate_sum_pi_squared", f"{MODEL}.use_fused_kernels"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where both are on."""
    raises, stops = version in _RAISES, version in _STOPS and shards_with_fsdp(workload)
    if not (raises or stops) or not (settings.flag(_SUM) and settings.flag(_FUSED)):
        return
    yield report(
        RULE,
        settings,
        _("{sum}=True with {fused}=True: {release} raises {error} in its first pass").format(
            sum=_SUM,
            fused=_FUSED,
            release=workload.release,
            error="NotImplementedError" if raises else "UnboundLocalError",
        ),
        keys=[_SUM, _FUSED],
        overrides=[assign(settings, _FUSED, False)],
    )
