"""Liger's layers in a model with a vision tower

What it checks
--------------
``model.use_liger=True`` under FSDP, a model with a vision tower, and a release that takes Liger's fused loss along.
The override switches Liger off.

Why it matters
--------------
Up to 0.7.1 verl asks Liger for everything it has, and so Liger's own ``forward`` replaces the one that verl gives the model.
It reads ``rope_deltas`` from what the inner model returns, which verl's forward of the inner model does not have: the first pass stops.

When it does not apply
----------------------
From 0.8.0 on, which leaves the loss out.
Text models, whose ``forward`` has no such field.
Under Megatron, which has no such layers.

Sources
-------
verl 0.7.1 ``workers/fsdp_workers.py:481`` against 0.8.0 ``workers/engine/fsdp/transformer_impl.py:280-284``.
verl 0.7.1 ``models/transformers/qwen2_vl.py`` (``qwen2_vl_base_forward``); Liger-Kernel 0.8.5 ``transformers/model/qwen2_5_vl.py`` (``lce_forward``).
verl #5669.
"""

from collections.abc import Iterator

from tuner.architectures import find_architecture
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import MODEL, shards_with_fsdp
from tuner.workload import Workload

RULE = Rule(
    code="CFG165",
    name="liger-vision-forward",
    summary=N_("Liger's layers in a model with a vision tower"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
)

_KEY = f"{MODEL}.use_liger"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where Liger replaces the forward that the model needs."""
    sees = find_architecture(workload.model.architecture).tower is not None
    if not sees or not settings.flag(_KEY) or not shards_with_fsdp(workload):
        return
    if workload.actor.engine.layers_fusable:
        return
    yield report(
        RULE,
        settings,
        _("{key}=True replaces the forward that {release} gives {model}: the first pass stops").format(
            key=_KEY, release=workload.release, model=workload.model.name
        ),
        keys=[_KEY],
        overrides=[assign(settings, _KEY, False)],
    )
