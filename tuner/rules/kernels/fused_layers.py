"""Use fused kernels for norms, rotary embedding and gated activations

What it checks
--------------

The decoder layers run their element-wise parts eagerly, and Liger's kernels shorten the step.

Why it matters
--------------

An eager RMSNorm alone is six passes over the hidden states; fused it is one read and one write.
Fused layers also save less for the backward pass.
They launch fewer than half of the kernels, but from Python, so that a pass that waits for its host is hardly shorter.

When it does not apply
----------------------

The package has no kernels for the architecture.
It is no dependency of the trainer, whose workers stop while they load the model where it is missing; a note says so, since what is installed where ``tuner`` runs tells nothing of where the job runs.
Where the README, an install script or an image of the launch installs it, its line stands in the block.
Megatron's layers are fused already.
Of Qwen3-VL and gpt-oss the package fuses norms and rotary embedding, and leaves the activations as they are.
On an Ascend card, for which the trainer's documentation says that Liger's kernels are not supported.
The layers were counted with ``--trace``: the fused ones were not.
The files around the launch ask for a transformers that the Liger-Kernel beside it refuses when it is imported: before 4.52.0 with 0.7.0 and newer, before 5.0.0 with 0.8.5.
Together with a fused output head some releases lose gradients; nothing is proposed then.
The workers of a copy hand arguments of their own to the model, or read outputs of their own from it, which Liger's forward does not know.
Older releases stop in the first pass of a model with a vision tower, whose forward Liger replaces.

Sources
-------

Liger-Kernel, ``ops/rms_norm.py``, ``ops/rope.py``, ``ops/swiglu.py``.
verl 0.3.0.post1, ``workers/fsdp_workers.py:209-213, 391, 420``: actor and reference read ``model.use_liger``; the critic of the engine workers, since 0.8.0, too.
verl 0.9.1, ``workers/engine/fsdp/transformer_impl.py``: ``from liger_kernel.transformers.monkey_patch import ...``.
verl 0.5.0 and 0.7.1, ``docs/ascend_tutorial/ascend_quick_start.rst`` (liger-kernel: not supported).
linkedin/Liger-Kernel #323 (no gain is expected where the host decides).
Liger-Kernel 0.7.0 and 0.8.5, ``transformers/monkey_patch.py`` (``MIN_SUPPORTED_TRANSFORMERS_VERSION``).
verl #5669, #6913.
"""

from msgspec.structs import replace

from tuner.architectures import find_architecture, layer_traits
from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.workload import Backend, HeadKind

RULE = Rule(
    code="KRN006",
    name="fused-layers",
    summary=N_("element-wise parts of the layers run unfused"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
    package="liger-kernel",
)

_NEEDED = N_(
    "without the package liger-kernel the trainer's workers stop while they load the model: "
    "install it where the job runs (pip install liger-kernel)"
)


def check(case: Case) -> Finding | None:
    """Fuse the layers of actor and reference."""
    actor = case.workload.actor
    if case.workload.cluster.gpu.is_ascend:
        return None
    unfused_head = actor.head.kind is HeadKind.LOGITS
    if actor.engine.fused_layers or actor.engine.backend is Backend.MEGATRON or not unfused_head:
        return None
    if not actor.engine.layers_fusable:
        return None
    model = case.workload.model
    if model.traced is not None or not find_architecture(model.architecture).liger_layers:
        return None
    proposal = case.workload.with_policy_engines(fused_layers=True)
    if not case.pays(proposal):
        return None
    text = _("norms, rotary embedding and activations of {layers} run as separate kernels")
    if not layer_traits(model.architecture).fused_activation:
        text = _("norms and rotary embedding of {layers} run as separate kernels")
    installed = actor.engine.layers_installed
    return Finding(
        rule=replace(RULE, package="") if installed else RULE,
        message=text.format(layers=counted(model.layers, "layer")),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=case.workload.actor_update.phase,
        proposal=proposal,
        notes=() if installed else (_(_NEEDED),),
    )
