"""Rotate queries and keys by one kernel under Megatron

What it checks
--------------

Megatron rotates the queries and the keys of a layer in plain operations, and one kernel in their place shortens the step.
The critic and a reward model are asked about as well, each for its own architecture.

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
verl 0.4.1 to 0.7.0, ``workers/megatron_workers.py``: actor, reference, critic and reward model each read ``megatron.override_transformer_config`` of their own section.
verl 0.7.1, ``examples/grpo_trainer/run_qwen3-235b_megatron_96gb.sh`` and ``run_qwen3-30b_dapo_megatron_fp8_trtllm.sh`` (``override_transformer_config.apply_rope_fusion=True``).
"""

from msgspec.structs import replace

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.model_shape import ModelShape
from tuner.rules.case import Case
from tuner.workload import Backend, Engine, Workload

RULE = Rule(
    code="KRN008",
    name="rotary-fusion",
    summary=N_("Megatron rotates queries and keys in plain operations"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Rotate by one kernel in every role whose architecture has one."""
    workload = case.workload
    apart = [it for it in workload.passes() if _rotates_apart(it.model, it.engine)]
    if not apart or workload.cluster.gpu.is_ascend:
        return None
    proposal = _fused(workload)
    if not case.pays(proposal):
        return None
    last = apart[-1]  # of the actor's passes its update
    return Finding(
        rule=RULE,
        message=_(
            "queries and keys of each sequence are rotated one after the other, in a dozen kernels each"
        )
        if last.engine.rotates_each
        else _("queries and keys are rotated in a dozen kernels each"),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=last.phase,
        proposal=proposal,
        notes=(_("the kernel is Transformer Engine's"),),
    )


def _rotates_apart(model: ModelShape, engine: Engine) -> bool:
    """Whether a model is rotated in plain operations that one kernel could replace."""
    plain = engine.backend is Backend.MEGATRON and not engine.fused_rotary
    return plain and model.latent is None and model.tower is None


def _fused(workload: Workload) -> Workload:
    """The workload with one kernel in the roles that lack it; critic and reward model have their own models."""

    def of(model: ModelShape, engine: Engine) -> Engine:
        return replace(engine, fused_rotary=True) if _rotates_apart(model, engine) else engine

    changed = workload.with_actor(engine=of(workload.model, workload.actor.engine))
    reference, critic, reward = workload.reference, workload.critic, workload.reward
    if reference is not None:
        changed = changed.with_reference(engine=of(workload.model, reference.engine))
    if critic is not None:
        changed = changed.with_critic(engine=of(critic.model, critic.engine))
    if reward is not None and reward.model is not None and reward.engine is not None:
        changed = changed.with_reward(engine=of(reward.model, reward.engine))
    return changed
