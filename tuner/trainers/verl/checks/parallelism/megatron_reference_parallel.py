"""A reference or a critic with Megatron sizes of its own

What it checks
--------------
Under Megatron, the sizes of ``ref.megatron`` and of ``critic.megatron`` against those of ``actor.megatron``: tensor, pipeline, context, expert and expert-tensor parallelism.
The override is the actor's size.

Why it matters
--------------
Actor, reference and critic share a process, and Megatron's groups are made once for it.
With the legacy workers, up to 0.7.1, they are the actor's, and the sizes of the others are not read: a warning, since nothing changes.
With the new ones of 0.7.1 and from 0.8.0 on the critic is built first, else the reference, and a later engine returns where groups are there: its sizes hold for the actor as well.
Memory and time are judged by the sizes that hold.
The critic's sizes do not follow the actor's: left out, they are 1.

When it does not apply
----------------------
With neither a critic nor a reference, and where the adapters' base model is the reference.
Up to 0.7.1 a reference or a critic whose sizes nobody set: they run with the actor's.

Sources
-------
verl 0.7.1 ``workers/megatron_workers.py:274-294`` and ``1016-1036``; 0.9.1 ``workers/engine_workers.py`` (``TrainingWorker.__init__``, ``init_model``), ``workers/engine/megatron/transformer_impl.py:244-257``, ``single_controller/ray/base.py`` (``create_colocated_worker_cls``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, CRITIC, REFERENCE, shards_with_fsdp
from tuner.trainers.verl.releases import ENGINE_PREVIEW
from tuner.workload import Backend, Workload

RULE = Rule(
    code="CFG162",
    name="megatron-reference-parallel",
    summary=N_("a reference or a critic with Megatron sizes of its own"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
)

_ACTOR_LAST = Releases(since=ENGINE_PREVIEW)
_BY_THE_SIZES_OF = {
    "actor": N_("{keys} differs from the actor's: {release} lays out every model by the actor's sizes"),
    "critic": N_("{keys} differs from the actor's: {release} lays out every model by the critic's sizes"),
    "reference": N_(
        "{keys} differs from the actor's: {release} lays out every model by the reference's sizes"
    ),
}
_SIZES = tuple(
    f"{name}_parallel_size"
    for name in ("tensor_model", "pipeline_model", "context", "expert_model", "expert_tensor")
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding for the reference and one for the critic, each with every size that differs."""
    if shards_with_fsdp(workload):
        return
    last = version in _ACTOR_LAST
    judged = workload.critic is not None and workload.critic.engine.backend is Backend.MEGATRON
    if workload.reference is not None and workload.reference.separate:
        whose = "critic" if last and judged else "reference" if last else "actor"
        yield from _differing(REFERENCE, settings, workload, whose=whose)
    if judged:
        yield from _differing(CRITIC, settings, workload, whose="critic" if last else "actor")


def _differing(section: str, settings: Settings, workload: Workload, *, whose: str) -> Iterator[Finding]:
    differing = [
        name
        for name in _SIZES
        if (key := f"{section}.megatron.{name}") in settings
        and _size(section, name, settings) != _size(ACTOR, name, settings)
        and (whose != "actor" or settings.is_set(key))
    ]
    if differing:
        keys = [f"{section}.megatron.{name}" for name in differing]
        yield report(
            RULE,
            settings,
            _(_BY_THE_SIZES_OF[whose]).format(
                keys=", ".join(f"{key}={settings.get(key)}" for key in keys), release=workload.release
            ),
            keys=keys,
            severity=Severity.WARNING if whose == "actor" else None,
            effect=Numerics.EXACT if whose == "actor" else None,
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
