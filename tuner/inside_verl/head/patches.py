"""Functions of verl that the head replaces. Torch is imported where verl has imported the module."""

from functools import cache
from typing import Any

from tuner.inside_verl.patching import WITH_ENGINE, WITH_LEGACY, Patch, made_by
from tuner.inside_verl.settings import HEAD
from tuner.inside_verl.verl_process import say
from tuner.language import N_, _
from tuner.versions import at_least, installed_version

OLDEST_TORCH = "2.8"  # as the extra ``gpu`` asks for: products of 16-bit matrices in float32
MONKEY_PATCH = "verl.models.transformers.monkey_patch"
DP_ACTOR = "verl.workers.actor.dp_actor"


def _wanted() -> bool:
    return HEAD.read() != "off" and _runs_here()


@cache
def _runs_here() -> bool:
    """Whether PyTorch is new enough for the kernels; where it is not, one line says so."""
    torch = installed_version("torch")
    if torch is None or at_least(torch, OLDEST_TORCH):
        return True
    say(
        _("the head needs torch {oldest} or newer, and this is {torch}: verl's own heads stay").format(
            oldest=OLDEST_TORCH, torch=torch
        )
    )
    return False


def _cross_entropy(original: Any) -> Any:
    from tuner.inside_verl.head.megatron import cross_entropy

    return cross_entropy


def _policy_wanted() -> bool:
    return HEAD.read() == "policy" and _runs_here()


PATCHES: tuple[Patch, ...] = (
    Patch(
        name="head of FSDP",
        module=MONKEY_PATCH,
        attribute="patch_forward_with_backends",
        make=made_by("head.choice", "in_place_of_backends"),
        does=N_("runs a model's own forward pass with the head in place of its output projection"),
        wanted=_wanted,
    ),
    Patch(
        name="head of models that verl leaves out",
        module=MONKEY_PATCH,
        attribute="apply_monkey_patch",
        make=made_by("head.choice", "after_monkey_patch"),
        does=N_("gives the same to models for which verl has no fused head, such as Kimi-VL"),
        copies=(
            "verl.models.transformers",
            "verl.workers.fsdp_workers",
            "verl.workers.engine.fsdp.engine_impl",
            "verl.workers.engine.fsdp.transformer_impl",
        ),
        wanted=_wanted,
    ),
    Patch(
        name="head of Megatron",
        module="verl.utils.kernel.linear_cross_entropy",
        attribute="linear_cross_entropy",
        make=_cross_entropy,
        does=N_("computes in place of verl's Triton kernel, over the tensor-parallel ranks"),
        copies=("verl.models.mcore.model_forward_fused", "verl.models.mcore.model_forward_1f1b_overlap"),
        wanted=_wanted,
    ),
    Patch(
        name="policy loss in the engine",
        module="verl.workers.engine.fsdp.transformer_impl",
        attribute="FSDPEngineWithLMHead.forward_step",
        make=made_by("head.policy.engine", "forward_step"),
        does=N_("tells the head, with policy, of the loss that a micro-batch is going to have"),
        releases=WITH_ENGINE,
        wanted=_policy_wanted,
    ),
    Patch(
        name="policy loss in the legacy actor",
        module=DP_ACTOR,
        attribute="DataParallelPPOActor._forward_micro_batch",
        make=made_by("head.policy.legacy", "forward_micro_batch"),
        does=N_("tells the head, with policy, of a micro-batch's loss in the legacy actor"),
        releases=WITH_LEGACY,
        wanted=_policy_wanted,
    ),
    Patch(
        name="policy loss of a single step",
        module=DP_ACTOR,
        attribute="DataParallelPPOActor.update_policy",
        make=made_by("head.policy.legacy", "update_policy"),
        does=N_("notes, with policy, where the legacy actor takes the ratio to the same pass"),
        releases=tuple(release for release in WITH_LEGACY if release >= "0.6"),
        wanted=_policy_wanted,
    ),
)
