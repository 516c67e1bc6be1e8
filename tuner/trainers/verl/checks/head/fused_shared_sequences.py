"""A fused output head where several GPUs share a sequence

What it checks
--------------
``model.use_fused_kernels=True`` under FSDP with ``ulysses_sequence_parallel_size`` above 1, in a release whose fused forward shifts the labels within each GPU's share.
The override switches the fused head off.

Why it matters
--------------
The forward of verl's fused heads takes its labels from the tokens it is given, shifted by one.
With shared sequences it is given a share, and the last token of each share is judged by the first token of the same share.
Its log-probability is that of another token, and nothing reports it.

When it does not apply
----------------------
From 0.8.0 on, which passes labels that were shifted before they were shared out.
One GPU a sequence.
With ``model.external_lib=tuner.inside_verl`` another head is in place.

Sources
-------
verl 0.7.1 ``models/transformers/dense_common.py`` (``forward_with_torch_backend``) and ``workers/actor/dp_actor.py:222-247``, against 0.8.0 ``dense_common.py:110-118`` and ``workers/engine/fsdp/transformer_impl.py:1054-1060``.
verl #6068, fixed by #6268.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, MODEL, shards_with_fsdp
from tuner.workload import HeadKind, Workload

RULE = Rule(
    code="CFG166",
    name="fused-shared-sequences",
    summary=N_("wrong labels of a fused output head where GPUs share sequences"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)

OF_VERLS_HEAD = True
_SHIFTS_SHARES = Releases(until="0.8.0")
_FUSED = f"{MODEL}.use_fused_kernels"
_ULYSSES = f"{ACTOR}.ulysses_sequence_parallel_size"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where both are on."""
    if not shifts_shares(workload, version):
        return
    yield report(
        RULE,
        settings,
        _(
            "{fused}=True with {ranks} GPUs to a sequence: {release} gives the last token of "
            "each share a wrong label"
        ).format(fused=_FUSED, ranks=workload.actor.engine.parallel.ulysses, release=workload.release),
        keys=[_FUSED, _ULYSSES],
        overrides=[assign(settings, _FUSED, False)],
    )


def shifts_shares(workload: Workload, version: str) -> bool:
    """Whether a fused head is given shares of sequences and shifts the labels of each by itself."""
    actor = workload.actor
    fused = actor.head.kind is not HeadKind.LOGITS and shards_with_fsdp(workload)
    return version in _SHIFTS_SHARES and fused and actor.engine.parallel.ulysses > 1
