"""Rotate queries and keys by one kernel under Megatron

What it checks
--------------

Megatron rotates the queries and the keys of a layer in plain operations, and one kernel in their place shortens the step.

Why it matters
--------------

In plain operations a rotation is a dozen kernels, which read and write queries and keys several times and keep more for the backward pass.
Megatron-Core before 0.15, which goes with releases of the trainer before 0.7, does so for each sequence of a micro-batch by itself, after it has waited for their lengths: the GPU idles meanwhile, the more the shorter the sequences are.

When it does not apply
----------------------

Under FSDP, where :doc:`fused-layers` fuses the rotation along with other parts.
With latent attention, which Megatron-Core rotates by itself, and with a vision tower, whose positions have three parts.
The kernel is one of Transformer Engine, which Megatron's images of the trainer have.

Sources
-------

Megatron-Core 0.12 to 0.16, ``models/common/embeddings/rope_utils.py`` (``apply_rotary_pos_emb``, ``_apply_rotary_pos_emb_thd``).
verl 0.7.1, ``examples/grpo_trainer/run_qwen3-235b_megatron_96gb.sh`` and ``run_qwen3-30b_dapo_megatron_fp8_trtllm.sh`` (``override_transformer_config.apply_rope_fusion=True``).
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.workload import Backend

RULE = Rule(
    code="KRN008",
    name="rotary-fusion",
    summary=N_("Megatron rotates queries and keys in plain operations"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Rotate by one kernel, in actor and reference."""
    engine, model = case.workload.actor.engine, case.workload.model
    if engine.backend is not Backend.MEGATRON or engine.fused_rotary:
        return None
    if case.workload.cluster.gpu.is_ascend or model.latent is not None or model.tower is not None:
        return None
    proposal = case.workload.with_policy_engines(fused_rotary=True)
    if not case.pays(proposal):
        return None
    return Finding(
        rule=RULE,
        message=_(
            "queries and keys of each sequence are rotated one after the other, in a dozen kernels each"
        )
        if engine.rotates_each
        else _("queries and keys are rotated in a dozen kernels each"),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=case.workload.actor_update.phase,
        proposal=proposal,
        notes=(_("the kernel is Transformer Engine's"),),
    )
