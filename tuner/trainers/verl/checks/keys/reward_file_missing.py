"""A file of a reward function that is not in the launch's own repository

What it checks
--------------
``custom_reward_function.path``, or ``reward.custom_reward_function.path``, with a Python file in a folder of the repository that the launch lies in, where that folder is there and the file is not.

Why it matters
--------------
verl loads the function before the workers start, and raises ``FileNotFoundError``.

When it does not apply
----------------------
The file may lie elsewhere, may be made by the script, or is ignored by git; or a copy of verl reads the key otherwise.

Sources
-------
verl 0.5.0 ``trainer/ppo/reward.py:56-62``, 0.9.1 ``trainer/ppo/reward.py:70-80`` with ``utils/import_utils.py``; 0.3.0.post1 ``trainer/main_ppo.py:27``.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.report import report
from tuner.workload import Workload

RULE = Rule(
    code="CFG211",
    name="reward-file-missing",
    summary=N_("a file of a reward function that is not in the repository"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

REFUSED_BY = RefusedBy.PYTHON

_KEYS = ("reward.custom_reward_function.path", "custom_reward_function.path")


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the file is not there and others beside it are."""
    misses, has = settings.misses_file, settings.has_statement
    key = next((key for key in _KEYS if settings.is_set(key)), None)
    if misses is None or key is None or (has is not None and not has("reward_fn_config path")):
        return
    path, origin = settings.get(key), settings.origin(key)
    place = None if origin is None else origin.location
    if not isinstance(path, str) or place is None or not misses(path):
        return
    from tuner.trainers.verl.missing_file import is_only_named  # of few launches

    if is_only_named(PurePosixPath(path).name, place.source):
        text = _("there is no {path} in the repository of this launch: {release} raises FileNotFoundError")
        yield report(RULE, settings, text.format(path=path, release=workload.release), keys=[key])
