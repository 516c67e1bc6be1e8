"""A fused head that fine-tuning does not read

What it checks
--------------
``model.use_fused_kernels`` of ``verl.trainer.sft_trainer`` before 0.7.1.

Why it matters
--------------
The model gets a forward pass that returns log-probabilities and no logits, and the batch does not say so to the engine, which then reads the logits: the first step stops with an ``AttributeError``.

When it does not apply
----------------------
From 0.7.1 on the worker hands the switch down with every batch.

Sources
-------
verl 0.6.1 ``workers/engine/fsdp/transformer_impl.py`` (``prepare_model_outputs``), ``models/transformers/dense_common.py`` (``forward_with_torch_backend``), ``trainer/sft_trainer.py`` (``meta_info``); 0.7.0 ``workers/engine_workers.py:267``; 0.7.1 ``workers/engine_workers.py:101``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import shards_with_fsdp
from tuner.trainers.verl.programs import Program
from tuner.workload import Workload

RULE = Rule(
    code="CFG183",
    name="fused-loss-refused",
    summary=N_("a fused head with which fine-tuning of this release stops"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

GUARDS = (
    CodeGuard(
        words="prepare_model_outputs logits",
        fails=True,
        releases=Releases(since="0.6.0", until="0.7.1"),
        unless="__init__ engine_config use_fused_kernels",
    ),
)

PROGRAMS = (Program.SFT_ENGINE,)

_KEY = "model.use_fused_kernels"
_STOPS = Releases(until="0.7.1")


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding where the switch is on."""
    if version in _STOPS and shards_with_fsdp(workload) and settings.flag(_KEY):
        yield report(
            RULE,
            settings,
            _(
                "{key}=True: fine-tuning of {release} reads logits that the fused forward pass "
                "does not return"
            ).format(key=_KEY, release=workload.release),
            keys=[_KEY],
            overrides=[assign(settings, _KEY, False)],
        )
