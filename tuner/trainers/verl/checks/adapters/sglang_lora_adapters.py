"""Adapters for an SGLang that is not built for them

What it checks
--------------
LoRA with ``rollout.name=sglang`` in a release that starts SGLang without adapters.

Why it matters
--------------
Up to 0.7.1 verl starts SGLang without ``enable_lora`` and sends it the adapters' weights all the same, under names that the engine does not know.
What is generated then does not follow what is learned, if the sync does not fail.

When it does not apply
----------------------
From 0.8.0 on SGLang is told of the adapters.
Adapters that are merged before they are sent.

Sources
-------
verl 0.7.1 ``workers/rollout/sglang_rollout/async_sglang_server.py`` (no ``enable_lora``), ``workers/fsdp_workers.py:759-770``; 0.8.0 ``workers/rollout/sglang_rollout/async_sglang_server.py:313-319``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import report
from tuner.trainers.verl.checks.settings import MODEL, ROLLOUT
from tuner.workload import Phase, RolloutEngine, Workload

RULE = Rule(
    code="CFG163",
    name="sglang-lora-adapters",
    summary=N_("adapters for an SGLang that is not built for them"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)

_WITHOUT = Releases(until="0.8.0")


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for adapters that reach SGLang as they are."""
    lora = workload.actor.engine.lora
    if version not in _WITHOUT or lora is None or lora.merged_for_rollout:
        return
    if workload.generator.engine is RolloutEngine.SGLANG:
        yield report(
            RULE,
            settings,
            _(
                "LoRA of rank {rank} with {rollout}.name=sglang: {release} starts SGLang without "
                "adapters and sends it their weights"
            ).format(rank=lora.rank, rollout=ROLLOUT, release=workload.release),
            keys=[f"{ROLLOUT}.name", f"{MODEL}.lora_rank", f"{MODEL}.lora.rank"],
            phase=Phase.UPDATE_WEIGHTS,
        )
