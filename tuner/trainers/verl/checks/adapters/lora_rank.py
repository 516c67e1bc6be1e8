"""A LoRA rank above what vLLM takes

What it checks
--------------
``model.lora_rank`` or ``model.lora.rank`` above 512 with vLLM.
The override is 512.

Why it matters
--------------
vLLM compiles its adapter kernels for ranks up to 512; verl checks the rank before it starts the engine.
Smaller ranks are rounded up to the next one that vLLM has: 8, 16, 32, 64, 128, 256, 320, 512.

When it does not apply
----------------------
Adapters that are merged before they are sent, and SGLang.

Sources
-------
verl 0.6.1 ``utils/config.py`` ("check LoRA rank in vLLM"), 0.9.1 ``workers/rollout/vllm_rollout/utils.py:83-100``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import MODEL
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG135",
    name="lora-rank",
    summary=N_("a LoRA rank above what vLLM takes"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

REFUSED_BY = RefusedBy.ENGINE

_CHECKED = Releases(since="0.6.1")
_LARGEST = 512


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding above the largest rank."""
    lora = workload.actor.engine.lora
    if version not in _CHECKED or lora is None or lora.merged_for_rollout or lora.rank <= _LARGEST:
        return
    if workload.generator.engine is not RolloutEngine.VLLM:
        return
    key = next(
        (name for name in (f"{MODEL}.lora.rank", f"{MODEL}.lora_rank") if settings.get(name) == lora.rank),
        None,
    )
    if key is not None:
        yield report(
            RULE,
            settings,
            _("{key}={rank} exceeds the largest rank of vLLM, {largest}: {release} refuses to start").format(
                key=key, rank=lora.rank, largest=_LARGEST, release=workload.release
            ),
            keys=[key],
            overrides=[assign(settings, key, _LARGEST)],
        )
