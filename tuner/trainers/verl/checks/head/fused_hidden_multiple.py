"""The Triton output head with a hidden size that is no multiple of 128

What it checks
--------------
``model.use_fused_kernels=True`` with ``impl_backend=triton``, or under Megatron, and a hidden size that 128 does not divide.
The override takes the torch backend, which has no such limit; Megatron has no other kernel, so that the fused head is switched off there.

Why it matters
--------------
The kernel asserts it in its first call.

When it does not apply
----------------------
The torch and Liger backends.
With ``model.external_lib=tuner.inside_verl`` another head is in place.

Sources
-------
verl 0.4.1 ``utils/kernel/kernels.py:455``, 0.9.1 line 596.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import MODEL, shards_with_fsdp
from tuner.workload import HeadKind, Workload

RULE = Rule(
    code="CFG123",
    name="fused-hidden-multiple",
    summary=N_("a hidden size that the Triton output head does not take"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

GUARDS = (CodeGuard(words="hidden_size 128", releases=Releases(since="0.4.1")),)

OF_VERLS_HEAD = True
_MULTIPLE = 128
_BACKEND = f"{MODEL}.fused_kernel_options.impl_backend"
_FUSED = f"{MODEL}.use_fused_kernels"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the kernel would assert."""
    hidden = workload.model.hidden
    if workload.actor.head.kind is not HeadKind.FUSED_TRITON or hidden % _MULTIPLE == 0:
        return
    other = (
        assign(settings, _BACKEND, "torch") if shards_with_fsdp(workload) else assign(settings, _FUSED, False)
    )
    yield report(
        RULE,
        settings,
        _(
            "{fused}=True runs the Triton kernel on a hidden size of {hidden}: {release} asserts "
            "a multiple of {multiple}"
        ).format(fused=_FUSED, hidden=hidden, release=workload.release, multiple=_MULTIPLE),
        keys=[_BACKEND, _FUSED],
        overrides=[other],
    )
