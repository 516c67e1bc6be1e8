"""A fused output head that leaves out the images

What it checks
--------------
``model.use_fused_kernels=True`` under FSDP with a model that has a vision tower, in a release whose fused forward pass for that type of model is the one for text.
The override switches the fused head off.

Why it matters
--------------
The forward pass for text accepts pixels and hands none of them on.
The policy is then trained on placeholders where the rollout engine saw an image: log-probabilities and gradients are those of another prompt, and nothing reports it.

When it does not apply
----------------------
Qwen2-VL and Qwen2.5-VL since 0.4.1, Qwen3-VL and GLM-4.1V since 0.6.0, Qwen3.5 since 0.8.0, each of which has a fused pass of its own.
Under Megatron, whose fused pass hands on the pixels.
A job whose prompts have no images (``--images-per-prompt 0``).
With ``model.external_lib=tuner.inside_verl`` another head is in place.

Sources
-------
verl 0.7.1 ``models/transformers/monkey_patch.py:234-284`` (``patch_forward_with_backends``) and ``dense_common.py:73-121``; 0.8.0 ``monkey_patch.py:270``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import MODEL
from tuner.trainers.verl.fields.head import fused_drops_images
from tuner.trainers.verl.source import source_of
from tuner.workload import HeadKind, Workload

RULE = Rule(
    code="CFG171",
    name="fused-drops-images",
    summary=N_("a fused output head that leaves out the images"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)

OF_VERLS_HEAD = True
_FUSED = f"{MODEL}.use_fused_kernels"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where images reach a fused pass for text."""
    actor, model = workload.actor, workload.model
    images = workload.batch.images
    if actor.head.kind is HeadKind.LOGITS or (images is not None and images.tokens == 0):
        return
    if fused_drops_images(source_of(settings, version), model, actor.engine):
        yield report(
            RULE,
            settings,
            _("{fused}=True: {release} hands {model} no images in its fused forward pass").format(
                fused=_FUSED, release=workload.release, model=model.name
            ),
            keys=[_FUSED],
            overrides=[assign(settings, _FUSED, False)],
        )
