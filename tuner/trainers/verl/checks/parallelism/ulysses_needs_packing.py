"""Sequence parallelism without packed sequences

What it checks
--------------
A Ulysses size above 1 for the actor, the reference or the critic while ``use_remove_padding`` is off for that model.
The override switches packing on.

Why it matters
--------------
The sequence is split after padding was removed, so verl refuses the combination.

When it does not apply
----------------------
Under Megatron.

Sources
-------
verl 0.4.1 ``trainer/ppo/ray_trainer.py:462-467`` (actor only under ``strategy=fsdp``), verl 0.9.1 ``workers/config/actor.py`` (``FSDPActorConfig.validate``) and ``workers/engine/fsdp/transformer_impl.py:148``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import CRITIC, key_of
from tuner.trainers.verl.programs import Program
from tuner.workload import Backend, Engine, Workload

RULE = Rule(
    code="CFG116",
    name="ulysses-needs-packing",
    summary=N_("sequence parallelism without packed sequences"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

GUARDS = (CodeGuard(words="ulysses_sequence_parallel_size use_remove_padding"),)

PROGRAMS = tuple(Program)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per model."""
    policies = [workload.actor.engine] + ([workload.reference.engine] if workload.reference else [])
    if any(_refused(engine) for engine in policies):
        size = max(engine.parallel.ulysses for engine in policies)
        yield _finding(key_of(settings, "model.packed", version) or "", size, settings, workload)
    if workload.critic is not None and _refused(workload.critic.engine):
        size = workload.critic.engine.parallel.ulysses
        yield _finding(f"{CRITIC}.model.use_remove_padding", size, settings, workload)


def _finding(key: str, size: int, settings: Settings, workload: Workload) -> Finding:
    return report(
        RULE,
        settings,
        _(
            "a sequence-parallel size of {size} with {key}=False: {release} refuses to split padded sequences"
        ).format(size=size, key=key, release=workload.release),
        keys=[key],
        overrides=[assign(settings, key, True)],
    )


def _refused(engine: Engine) -> bool:
    return engine.backend is not Backend.MEGATRON and engine.parallel.ulysses > 1 and not engine.packed
