"""The fused output head under FSDP2 with an untied head

What it checks
--------------
``model.use_fused_kernels=True`` with ``actor.strategy=fsdp2`` and a model whose output head is a matrix of its own.
The override goes back to FSDP1, where the combination works.

Why it matters
--------------
From 0.7.1 on an untied ``lm_head`` is an FSDP2 unit of its own.
The fused forward never calls that module, it reads ``lm_head.weight``, so that FSDP2 does not gather it: the weight is still a sharded tensor, and multiplying it with the hidden states raises "got mixed torch.Tensor and DTensor".

When it does not apply
----------------------
Models with tied embeddings, whose head belongs to the root unit, and releases up to 0.7.0.
Qwen3.5 from 0.8.0 on and Qwen3-VL from 0.9.0 on gather the weight themselves; they can still fail in the backward pass when gradient synchronisation is deferred.
With ``model.external_lib=tuner.inside_verl`` another head is in place.

Sources
-------
The wrapping: verl 0.7.1 ``utils/fsdp_utils.py:510-531``, the same in 0.8.0 and 0.9.1.
The reading: verl 0.7.1 ``models/transformers/dense_common.py:119``, 0.9.1 lines 125 and 191; ``qwen3_5.py:589``, ``qwen3_vl.py:371``.
verl #5516, #5633, #5920, #7427, #7520.
"""

from collections.abc import Iterator

from tuner.architectures import find_architecture
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, MODEL
from tuner.workload import Backend, HeadKind, Workload

RULE = Rule(
    code="CFG125",
    name="fsdp2-fused-untied",
    summary=N_("the fused output head under FSDP2 with an untied head, which fails"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

OF_VERLS_HEAD = True
_SEPARATE = Releases(since="0.7.1")

GUARDS = (CodeGuard(words="_wrap_by_name embed_tokens lm_head", fails=True, releases=_SEPARATE),)
_FUSED = (HeadKind.FUSED_TORCH, HeadKind.FUSED_TRITON, HeadKind.FUSED_LIGER)
_KEY = f"{MODEL}.use_fused_kernels"
_STRATEGY = f"{ACTOR}.strategy"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the three meet."""
    actor, model = workload.actor, workload.model
    if version not in _SEPARATE or model.tied_embeddings or _gathers(model.architecture, version):
        return
    if actor.engine.backend is Backend.FSDP2 and actor.head.kind in _FUSED:
        yield report(
            RULE,
            settings,
            _(
                "{key}=True under {strategy}=fsdp2 with the untied head of {model}: {release} does "
                "not gather its weight and the first log-prob pass fails"
            ).format(key=_KEY, strategy=_STRATEGY, model=model.name, release=workload.release),
            keys=[_KEY, _STRATEGY],
            overrides=[assign(settings, _STRATEGY, "fsdp")],
            notes=[_("{key}=False keeps FSDP2 at the price of the logits").format(key=_KEY)],
        )


def _gathers(architecture: str, version: str) -> bool:
    since = find_architecture(architecture).verl_gathers_head_since
    return since is not None and version in Releases(since=since)
