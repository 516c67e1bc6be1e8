"""LoRA settings that Megatron does not read

What it checks
--------------
``model.lora_rank`` or ``model.lora_adapter_path`` under Megatron while ``model.lora.rank`` is 0.
The override sets the rank where Megatron reads it, if the release has such a key.

Why it matters
--------------
Megatron takes adapters from the section ``model.lora`` only.
All parameters are then trained, with the memory that this takes.

When it does not apply
----------------------
FSDP, which reads ``model.lora_rank``.

Sources
-------
verl 0.7.1 ``workers/megatron_workers.py:240,419``, 0.9.1 ``workers/engine/megatron/transformer_impl.py:494`` (``peft_config``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import MODEL, in_release, shards_with_fsdp
from tuner.workload import Workload

RULE = Rule(
    code="CFG164",
    name="megatron-lora-keys",
    summary=N_("LoRA settings that Megatron does not read"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)

_RANK, _PATH, _LIVE = f"{MODEL}.lora_rank", f"{MODEL}.lora_adapter_path", f"{MODEL}.lora.rank"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for adapters that nobody trains."""
    if shards_with_fsdp(workload) or workload.actor.engine.lora is not None:
        return
    rank, path = settings.integer(_RANK, default=0), settings.get(_PATH)
    if not rank and path is None:
        return
    key = _RANK if rank else _PATH
    yield report(
        RULE,
        settings,
        _("{key}={value} does nothing under Megatron: {release} trains all parameters").format(
            key=key, value=settings.get(key), release=workload.release
        ),
        keys=[key, _LIVE],
        overrides=[assign(settings, _LIVE, rank)] if rank and in_release(settings, _LIVE) else [],
    )
