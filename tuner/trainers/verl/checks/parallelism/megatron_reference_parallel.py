"""A reference with Megatron sizes of its own

What it checks
--------------
Under Megatron, the sizes of ``ref.megatron`` against those of ``actor.megatron``: tensor, pipeline, context, expert and expert-tensor parallelism.
The override is the actor's size.

Why it matters
--------------
Actor and reference share a process, and Megatron's groups are made once for it.
Up to 0.7.1 they are the actor's, and the reference's sizes are not read.
From 0.8.0 on the reference is built first, so that its sizes hold for the actor as well.

When it does not apply
----------------------
Without a reference, and where the adapters' base model is the reference.

Sources
-------
verl 0.7.1 ``workers/megatron_workers.py:274-294``; 0.9.1 ``workers/engine_workers.py`` (``init_model``), ``workers/engine/megatron/transformer_impl.py:244-257``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, REFERENCE, shards_with_fsdp
from tuner.workload import Workload

RULE = Rule(
    code="CFG162",
    name="megatron-reference-parallel",
    summary="a reference with Megatron sizes of its own",
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
)

_REFERENCE_FIRST = Releases(since="0.8.0")
_SIZES = tuple(
    f"{name}_parallel_size"
    for name in ("tensor_model", "pipeline_model", "context", "expert_model", "expert_tensor")
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding with every size that differs."""
    reference = workload.reference
    if shards_with_fsdp(workload) or reference is None or not reference.separate:
        return
    differing = [
        name
        for name in _SIZES
        if f"{REFERENCE}.megatron.{name}" in settings
        and _size(REFERENCE, name, settings) != _size(ACTOR, name, settings)
    ]
    if differing:
        keys = [f"{REFERENCE}.megatron.{name}" for name in differing]
        first = version in _REFERENCE_FIRST
        whose = "takes them for the actor as well" if first else "takes the actor's sizes for both"
        yield report(
            RULE,
            settings,
            f"{', '.join(f'{key}={settings.get(key)}' for key in keys)} differs from the actor's: "
            f"{workload.release} {whose}",
            keys=keys,
            overrides=[
                assign(settings, key, _size(ACTOR, name, settings))
                for key, name in zip(keys, differing, strict=True)
            ],
        )


def _size(section: str, name: str, settings: Settings) -> object:
    size = settings.get(f"{section}.megatron.{name}")
    return (
        None if size == "None" else size
    )  # a default of 0.4.1 and 0.5.0 has the text where others have null
