"""Megatron without the bridge that this release needs

What it checks
--------------
``megatron.use_mbridge=False`` for a model that runs, and for what needs it: a multi-token head, or ``megatron.dtype=float16``.
The override uses the bridge, the default from 0.7.0 on.

Why it matters
--------------
From 0.8.0 on the Megatron engine asserts the bridge, which builds the model and loads its weights.
The legacy workers of 0.7.0 and 0.7.1 assert it for multi-token prediction and float16 only; their new ones, with ``trainer.use_legacy_worker_impl=disable``, always.

When it does not apply
----------------------
FSDP, and earlier releases, which build models of their own.

Sources
-------
verl 0.8.0 ``workers/engine/megatron/transformer_impl.py:90``, 0.9.1 line 191.
verl 0.7.1 ``workers/megatron_workers.py:155-177``, ``workers/engine/megatron/transformer_impl.py:83``, ``trainer/main_ppo.py:129-150``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, CRITIC, MODEL, REFERENCE, shards_with_fsdp
from tuner.trainers.verl.releases import ENGINE_PREVIEW
from tuner.workload import Workload

RULE = Rule(
    code="CFG154",
    name="megatron-bridge-needed",
    summary=N_("Megatron without the bridge that this release needs"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

_ALWAYS = Releases(since=ENGINE_PREVIEW)
_CRITIC_ALWAYS = Releases(since="0.8.0")  # the preview has the legacy worker for it
_SOMETIMES = Releases(since="0.7.0", until="0.8.0")

GUARDS = (
    CodeGuard(words="use_mbridge must", releases=_ALWAYS),
    CodeGuard(words="use_mbridge fp16 megatron_config", releases=_SOMETIMES),
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding with every section that lacks the bridge."""
    if shards_with_fsdp(workload):
        return
    sections = [ACTOR]
    sections += [REFERENCE] if workload.reference is not None else []
    sections += [CRITIC] if workload.critic is not None else []
    lacking = [
        f"{section}.megatron.use_mbridge"
        for section in sections
        if not settings.flag(f"{section}.megatron.use_mbridge", default=True)
        and (_always(section, version) or (version in _SOMETIMES and _needs(section, settings)))
    ]
    if lacking:
        yield report(
            RULE,
            settings,
            _("{lacking}: {release} asserts the bridge").format(
                lacking=", ".join(f"{key}=False" for key in lacking), release=workload.release
            ),
            keys=lacking,
            overrides=[assign(settings, key, True) for key in lacking],
        )


def _always(section: str, version: str) -> bool:
    return version in (_CRITIC_ALWAYS if section == CRITIC else _ALWAYS)


def _needs(section: str, settings: Settings) -> bool:
    half = settings.text(f"{section}.megatron.dtype", default="bfloat16") == "float16"
    return half or settings.flag(f"{MODEL}.mtp.enable")
