"""The sum of squared probabilities with the fused output head

What it checks
--------------
``actor.calculate_sum_pi_squared=True`` together with ``model.use_fused_kernels=True``.
The override switches the fused head off.

Why it matters
--------------
The sum needs all logits, which the fused head never has: the engine raises ``NotImplementedError`` in its first pass.

When it does not apply
----------------------
Up to 0.7.1, where the workers do not look, and under Megatron.

Sources
-------
verl 0.8.0 ``workers/engine/fsdp/transformer_impl.py:1077-1080``, 0.9.1 lines 1343-1346.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, MODEL, shards_with_fsdp
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

_RAISES = Releases(since="0.8.0")
_SUM, _FUSED = f"{ACTOR}.calculate_sum_pi_squared", f"{MODEL}.use_fused_kernels"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where both are on."""
    if version not in _RAISES or not (
        settings.flag(_SUM) and settings.flag(_FUSED) and shards_with_fsdp(workload)
    ):
        return
    yield report(
        RULE,
        settings,
        _("{sum}=True with {fused}=True: {release} raises NotImplementedError in its first pass").format(
            sum=_SUM, fused=_FUSED, release=workload.release
        ),
        keys=[_SUM, _FUSED],
        overrides=[assign(settings, _FUSED, False)],
    )
