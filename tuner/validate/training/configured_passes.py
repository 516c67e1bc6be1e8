"""The training passes of a job, and why some of them cannot be run by the engine that is here."""

from importlib.util import find_spec

from tuner.architectures import find_architecture
from tuner.dtypes import DType
from tuner.language import _
from tuner.memory.fsdp.units import wraps_head
from tuner.model_shape import ModelShape
from tuner.validate.training.settings import SEEING
from tuner.workload import (
    Backend,
    Checkpointing,
    Engine,
    HeadKind,
    OutputHead,
    Phase,
    Role,
    StepPass,
    Workload,
)


def reason_not_here(step_pass: StepPass) -> str | None:
    """Why a pass cannot be run by our engine; None where it can be."""
    if step_pass.training and step_pass.engine.streamed_offload:
        return _("an update with weights that are fetched from the host is not run here")
    return not_here(step_pass.engine, step_pass.head, step_pass.model)


def reasons_not_here(workload: Workload) -> dict[Phase, str]:
    """Why passes of a job cannot be run here."""
    reasons = {step_pass.phase: reason_not_here(step_pass) for step_pass in by_value(workload)}
    return {phase: reason for phase, reason in reasons.items() if reason is not None}


def not_here(engine: Engine, head: OutputHead, model: ModelShape) -> str | None:
    """Why this engine, head or model cannot be run by ours; None where it can be."""
    reasons = (
        (engine.backend is Backend.MEGATRON, _("Megatron's engine is not run here")),
        (engine.lora is not None, _("adapters are not run here")),
        (not engine.packed, _("batches with padding are not run here")),
        (engine.activation_offload, _("activation offload is not run here")),
        (
            engine.fused_layers and find_spec("liger_kernel") is None,
            _("Liger's layers cannot be run: liger_kernel is not installed"),
        ),
        (engine.checkpointing is Checkpointing.SELECTIVE, _("selective checkpointing is not run here")),
        (
            engine.compute_dtype is DType.FLOAT16 or engine.stored_dtype is DType.FLOAT16,
            _("float16, which needs loss scaling, is not run here"),
        ),
        (
            not engine.streamed_offload and engine.optimizer_dtype is not engine.stored_dtype,
            _("moments of another dtype are not run here"),
        ),
        (
            head.kind is HeadKind.FUSED_TRITON,
            _("verl's Triton head is not run here; ours allocates otherwise"),
        ),
        (head.kind is HeadKind.FUSED_LIGER, _("Liger's head is not run here")),
        (
            head.kind is HeadKind.FUSED_TUNER,
            _("the head of tuner.inside_verl is run by the part verl-update alone"),
        ),
        (
            head.kind is HeadKind.FUSED_TORCH and wraps_head(model, engine),
            _("a fused head would read weights that FSDP2 has not gathered: a unit of their own"),
        ),
        (
            engine.parallel.ulysses > 1 and not heads_can_be_shared(model, engine.parallel.ulysses),
            _("its heads cannot be shared by {ranks} GPUs, as Ulysses would").format(
                ranks=engine.parallel.ulysses
            ),
        ),
        (engine.parallel.ulysses > 1 and model.linear is not None, _("linear attention is not shared here")),
        *_reasons_of_tower(engine, head, model),
    )  # fmt: skip
    return next((reason for holds, reason in reasons if holds), None)


def _reasons_of_tower(engine: Engine, head: OutputHead, model: ModelShape) -> tuple[tuple[bool, str], ...]:
    """What keeps a model with parts beside its decoder from being run here, each with whether it holds."""
    seeing = model.tower is not None
    architecture = find_architecture(model.architecture)
    return (
        (
            bool(model.extra_parameters) and model.architecture not in SEEING,
            _("models with more than a decoder are not run here"),
        ),
        (seeing and model.value_head, _("a critic that sees is not run here")),
        (seeing and engine.parallel.ulysses > 1, _("images are not shared among GPUs here")),
        (seeing and engine.fused_layers, _("Liger's layers of a model that sees are not run here")),
        (
            seeing and engine.frozen_tower and engine.backend is Backend.FSDP,
            _("a frozen tower under FSDP1 is not run here"),
        ),
        (
            seeing and head.kind is HeadKind.FUSED_TORCH and architecture.verl_fused_images_since is None,
            _("verl's fused head leaves the images of this model out"),
        ),
    )


def heads_can_be_shared(model: ModelShape, ranks: int) -> bool:
    """Whether so many GPUs can share a sequence: as many heads on each, those of keys repeated if need be.

    Source: verl 0.9.1 ``models/transformers/monkey_patch.py`` (``apply_monkey_patch``).
    """
    keys = model.kv_heads
    return model.heads % ranks == 0 and (keys % ranks == 0 or ranks % keys == 0)


def by_value(workload: Workload) -> list[StepPass]:
    """All passes of a job, the most valuable to run first; of each model the update comes first.

    The actor's, the critic's, the reference's, the reward model's.
    """
    order = (Role.ACTOR, Role.CRITIC, Role.REFERENCE, Role.REWARD)
    return sorted(
        workload.passes(), key=lambda step_pass: (order.index(step_pass.role), not step_pass.training)
    )
