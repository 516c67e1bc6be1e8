"""No micro-batch size under Megatron, with dynamic batching

What it checks
--------------
Megatron with ``use_dynamic_bsz=True`` and no ``actor.ppo_micro_batch_size_per_gpu`` in a release that multiplies by it all the same.
The override is 1, which every batch divides by.

Why it matters
--------------
Up to 0.5.0 the trainer multiplies the data-parallel ranks by this size when it checks the batch, whatever the batching; without one it stops with a ``TypeError``.
The size decides nothing else then: micro-batches are filled by tokens.

When it does not apply
----------------------
From 0.6.0 on dynamic batching needs no size.
With static batching another check asks for it.

Sources
-------
verl 0.4.1 ``trainer/ppo/ray_trainer.py:367-372``, 0.5.0 lines 396-410.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, shards_with_fsdp, static_batches
from tuner.workload import Workload

RULE = Rule(
    code="CFG149",
    name="megatron-micro-batch-missing",
    summary=N_(
        "no micro-batch size under Megatron, which this release multiplies by even with dynamic batching"
    ),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
)

_MULTIPLIES = Releases(until="0.6.0")

GUARDS = (
    CodeGuard(
        words="megatron_dp minimal_bsz ppo_micro_batch_size_per_gpu",
        file="ray_trainer",
        around="_validate_config",
        fails=True,
        releases=Releases(since="0.4.0", until="0.6.0"),
    ),
)
_KEY = f"{ACTOR}.ppo_micro_batch_size_per_gpu"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the size is missing and static batching does not ask for it."""
    if version not in _MULTIPLIES or shards_with_fsdp(workload) or static_batches(settings):
        return
    if settings.get(_KEY) is None:
        yield report(
            RULE,
            settings,
            _(
                "{key} is not set: {release} multiplies by it under Megatron, with dynamic batching "
                "as well, and stops with a TypeError"
            ).format(key=_KEY, release=workload.release),
            keys=[_KEY, f"{ACTOR}.use_dynamic_bsz"],
            overrides=[assign(settings, _KEY, 1)],
        )
