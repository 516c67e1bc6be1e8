"""The Triton output head with a vocabulary that is no multiple of 1024

What it checks
--------------
``model.use_fused_kernels=True`` with ``impl_backend=triton``, or under Megatron, in a release whose kernel reads past the end of the vocabulary.
The override takes the torch backend, which chunks tokens instead and has no such bug; Megatron has no other kernel, so that the fused head is switched off there.

Why it matters
--------------
The kernel walks the vocabulary in blocks of 1024 and counted the columns beyond its end into the sum of exponentials.
Log-probabilities and entropy are wrong by a constant that depends on the token, and nothing reports it: training goes on with wrong importance ratios.
The vocabularies of Qwen (151936, 152064) are no multiples of 1024.

When it does not apply
----------------------
From 0.7.1 on the kernel masks those columns.
A vocabulary that is a multiple of 1024, per tensor-parallel rank, was never affected.
With ``model.external_lib=tuner.inside_verl`` another head is in place.

Sources
-------
verl 0.6.1 ``utils/kernel/kernels.py:222-266`` without, 0.7.1 line 312 with the mask.
verl #2656, #2899, fixed by #5349.
"""

from collections.abc import Iterator

from tuner.dtypes import DType
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import MODEL, shards_with_fsdp
from tuner.workload import HeadKind, Workload

RULE = Rule(
    code="CFG122",
    name="triton-fused-wrong-log-probs",
    summary=N_("wrong log-probabilities of the Triton output head"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)

OF_VERLS_HEAD = True
_UNMASKED = Releases(until="0.7.1")
_BLOCK = 1024
_BACKEND = f"{MODEL}.fused_kernel_options.impl_backend"
_FUSED = f"{MODEL}.use_fused_kernels"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the kernel runs on such a vocabulary."""
    columns = workload.model.vocab // workload.actor.engine.parallel.tensor
    if (
        version not in _UNMASKED
        or workload.actor.head.kind is not HeadKind.FUSED_TRITON
        or columns % _BLOCK == 0
    ):
        return
    other = (
        assign(settings, _BACKEND, "torch") if shards_with_fsdp(workload) else assign(settings, _FUSED, False)
    )
    yield report(
        RULE,
        settings,
        _(
            "{fused}=True runs the Triton kernel of {release} on {columns} columns of the "
            "vocabulary, no multiple of {block}: its log-probabilities are wrong"
        ).format(fused=_FUSED, release=workload.release, columns=columns, block=_BLOCK),
        keys=[_BACKEND, _FUSED],
        overrides=[other],
        notes=_rounded(workload),
    )


def _rounded(workload: Workload) -> tuple[str, ...]:
    """What is wrong with PyTorch's fused head, where that is proposed and rounds."""
    head, dtype = workload.actor.head, workload.actor.engine.compute_dtype
    if not shards_with_fsdp(workload) or HeadKind.FUSED_TORCH not in head.rounding or dtype is DType.FLOAT32:
        return ()
    return (
        _("{key}=torch rounds log-probabilities to {dtype} here; {fused}=False does not").format(
            key=_BACKEND, dtype=dtype.value, fused=_FUSED
        ),
    )
