"""Liger's layers together with the fused output head

What it checks
--------------
``model.use_liger=True`` together with ``model.use_fused_kernels=True`` in a release where the two break each other.
The override switches Liger's layers off and keeps the fused head, which saves more memory.

Why it matters
--------------
Up to 0.7.1 Liger replaces the model's ``forward`` with its own loss, on the instance, over the one that verl put on the class: reward and loss come apart.
In 0.8.0 it no longer does, but the torch backend of the fused head decides what needs a gradient by looking at a view of the hidden states, and the view of what Liger's RMSNorm returns says it needs none: everything below the output head trains with a zero gradient while the metrics look normal, but for a small ``grad_norm``.

When it does not apply
----------------------
From 0.9.0 on.
In 0.8.0 with the Triton backend.

Sources
-------
verl 0.7.1 ``workers/fsdp_workers.py:477-481`` patches without arguments, 0.8.0 ``workers/engine/fsdp/transformer_impl.py:275-284`` with ``fused_linear_cross_entropy=False``.
verl 0.8.0 ``utils/experimental/torch_functional.py:107`` against 0.9.1 lines 116-118, which restores ``requires_grad``.
verl #1720, #2609, #5669, #6913, #7235.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import MODEL, shards_with_fsdp
from tuner.workload import Workload

RULE = Rule(
    code="CFG126",
    name="liger-fused-gradient",
    summary=N_("Liger's layers and the fused output head, which break each other"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)

_FORWARDS_COLLIDE = Releases(until="0.8.0")
_GRADIENT_LOST = Releases(since="0.8.0", until="0.9.0")  # torch backend only
_LIGER, _FUSED = f"{MODEL}.use_liger", f"{MODEL}.use_fused_kernels"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where both are on."""
    if not (settings.flag(_LIGER) and settings.flag(_FUSED) and shards_with_fsdp(workload)):
        return
    backend = settings.text(f"{MODEL}.fused_kernel_options.impl_backend", default="torch")
    if version in _FORWARDS_COLLIDE:
        what = _("both replace the model's forward, and the losses of training come out wrong")
    elif version in _GRADIENT_LOST and backend == "torch":
        what = _("no gradient reaches the layers below the output head")
    else:
        return
    yield report(
        RULE,
        settings,
        _("{liger}=True with {fused}=True: in {release} {what}").format(
            liger=_LIGER, fused=_FUSED, release=workload.release, what=what
        ),
        keys=[_LIGER, _FUSED],
        overrides=[assign(settings, _LIGER, False)],
    )
