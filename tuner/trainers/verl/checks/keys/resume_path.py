"""A checkpoint to resume from that names no step

What it checks
--------------
``trainer.resume_mode=resume_path`` with a ``trainer.resume_from_path`` that is missing or has no ``global_step_`` in it.

Why it matters
--------------
verl reads the step from the path, and asserts that it is there once all models are loaded.

When it does not apply
----------------------
``auto`` looks for the newest step by itself, and ``disable`` starts afresh.

Sources
-------
verl 0.4.1 ``trainer/ppo/ray_trainer.py:861-864``, 0.9.1 ``trainer/ppo/v1/trainer_base.py:864-867``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.report import report
from tuner.workload import Workload

RULE = Rule(
    code="CFG155",
    name="resume-path",
    summary=N_("a checkpoint to resume from that names no step"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

GUARDS = (CodeGuard(words="resume_from_path global_step_"),)

_MODE, _PATH = "trainer.resume_mode", "trainer.resume_from_path"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where no step can be read from the path."""
    path = settings.get(_PATH)
    if settings.get(_MODE) != "resume_path" or (isinstance(path, str) and "global_step_" in path):
        return
    yield report(
        RULE,
        settings,
        _(
            "{mode}=resume_path with {path_key}={path}: {release} asserts a path with global_step_ in it"
        ).format(mode=_MODE, path_key=_PATH, path=path, release=workload.release),
        keys=[_PATH, _MODE],
    )
