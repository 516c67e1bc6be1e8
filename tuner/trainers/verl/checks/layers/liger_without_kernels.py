"""Liger's layers for a type of model that Liger has none for

What it checks
--------------
``model.use_liger=True`` under FSDP, and a ``model_type`` that Liger-Kernel does not know.

Why it matters
--------------
Liger logs that it has no kernels for this type, at a level that is not shown, and leaves the layers as they are.
Memory and time are those of the eager layers, and are estimated so.

When it does not apply
----------------------
Under Megatron, whose layers are others.
A release of Liger-Kernel that is newer than 0.8.5 may know the type.

Sources
-------
verl 0.9.1 ``workers/engine/fsdp/transformer_impl.py:309``.
Liger-Kernel 0.8.5 ``transformers/monkey_patch.py`` (``MODEL_TYPE_TO_APPLY_LIGER_FN``, ``_apply_liger_kernel_to_instance``).
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
    code="CFG143",
    name="liger-without-kernels",
    summary=N_("Liger's layers for a type of model that Liger has none for"),
    severity=Severity.ADVICE,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
)

_KEY = f"{MODEL}.use_liger"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the switch is on and changes nothing."""
    model = workload.model
    if (
        not settings.flag(_KEY)
        or not shards_with_fsdp(workload)
        or find_architecture(model.architecture).liger_layers
    ):
        return
    yield report(
        RULE,
        settings,
        _(
            "{key}=True changes nothing: {release} asks Liger for kernels, which has none for a "
            "model of type {architecture}"
        ).format(key=_KEY, release=workload.release, architecture=model.architecture),
        keys=[_KEY],
        overrides=[assign(settings, _KEY, False)],
    )
