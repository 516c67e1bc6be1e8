"""Entropy settings of the reference

What it checks
--------------
``ref.entropy_from_logits_with_chunking`` or ``ref.entropy_checkpointing`` switched on.
The override removes the setting by giving it its default.

Why it matters
--------------
verl's performance guide recommends the reference's key against the memory peak of the logits.
No release computes an entropy in the reference's pass, so the key does nothing there and the peak stays.
The pass that computes an entropy is the one over the actor, and the key that counts is ``actor.entropy_from_logits_with_chunking``.
It is not a plain gain: under ``torch.compile``, the default, the compiled entropy needs no more memory than the logits, and chunks raise the peak of training; other advice prices that.

When it does not apply
----------------------
With the actor's own keys, which are read, and where the reference's key only has the value of the actor's.

Sources
-------
Entropy is off in the reference's pass: verl 0.4.1 ``workers/fsdp_workers.py:749``, 0.7.1 ``workers/fsdp_workers.py:1164``, 0.8.0 ``trainer/ppo/ray_trainer.py:1238``, 0.9.1 ``trainer/ppo/v1/trainer_base.py:1699``.
The recommendation: verl 0.9.1 ``docs/perf/perf_tuning.rst``, "Memory optimization for entropy calculation from logits".
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, REFERENCE
from tuner.workload import Phase, Workload

RULE = Rule(
    code="CFG105",
    name="ref-entropy-chunking-noop",
    summary=N_("entropy settings of the reference, which computes no entropy"),
    severity=Severity.ADVICE,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
)

_NAMES = ("entropy_from_logits_with_chunking", "entropy_checkpointing")


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per key that is switched on."""
    for name in _NAMES:
        key = f"{REFERENCE}.{name}"
        follows = settings.flag(f"{ACTOR}.{name}")  # from 0.9 on the reference's key copies the actor's
        if settings.flag(key) and not follows:
            yield report(
                RULE,
                settings,
                _("{key}=True does nothing: {release} computes no entropy in the reference's pass").format(
                    key=key, release=workload.release
                ),
                keys=[key],
                overrides=[assign(settings, key, False)],
                phase=Phase.REF_LOG_PROB,
                notes=[
                    _("the key that has an effect is {actor}.{name}, in the passes over the actor").format(
                        actor=ACTOR, name=name
                    )
                ],
            )
