"""An empty name where a data file has to stand

What it checks
--------------
Whether ``data.train_files`` or ``data.val_files`` is written as nothing: ``data.val_files=``, or a list with such a name in it.
There is no override: which file is meant, the launch's author knows.

Why it matters
--------------
The trainer builds both datasets before the first step, the one for validation as well where nothing ever validates.
To find out where a file lies it looks at the last letter of its name, and ends with ``IndexError`` where there is none.

When it does not apply
----------------------
A dataset class of the user's own (``data.custom_cls.path``).
A copy of verl with a test of ``val_files`` somewhere in its code: it may build no dataset for what is empty.

Sources
-------
verl 0.3.0 ``trainer/ppo/ray_trainer.py:418``, ``utils/dataset/rl_dataset.py:122``, ``utils/fs.py:76``; 0.7.1 ``trainer/main_ppo.py:333``, ``utils/dataset/rl_dataset.py:152``, ``utils/fs.py:238``; 0.9.1 ``trainer/ppo/v1/trainer_base.py:719``, ``utils/dataset/rl_dataset.py:167``, ``utils/fs.py:238``.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.report import report
from tuner.workload import Workload

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

RULE = Rule(
    code="CFG216",
    name="data-file-empty",
    summary=N_("an empty name of a data file, which ends the job while it builds its datasets"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

_KEYS = ("data.train_files", "data.val_files")
_OWN = ("data.custom_cls.path", "data.datagen.path")

GUARDS = (CodeGuard(words="Make sure last char src", file="utils/fs"),)


def check(settings: Settings, workload: Workload, _version: str) -> Iterator[Finding]:
    """One finding with every key that has an empty name."""
    if any(settings.get(key) is not None for key in _OWN):
        return
    empty = [key for key in _KEYS if settings.is_set(key) and _is_empty(settings.get(key))]
    if not empty:
        return
    text = _("{keys} names no file: {release} takes the last letter of each name, and raises IndexError")
    keys = _(", ").join(f"{key}=" for key in empty)
    yield report(RULE, settings, text.format(keys=keys, release=workload.release), keys=empty)


def check_of_copy(
    settings: Settings, workload: Workload, version: str, code: "TrainerCode"
) -> Iterator[Finding]:
    """The finding, unless the copy asks somewhere whether a key has any files."""
    for finding in check(settings, workload, version):
        names = "|".join(key.rpartition(".")[2] for key in finding.keys)
        asks = re.compile(rf"\bif\b[^\n]*\b(?:{names})\b")
        if not any(asks.search(text) for text in code.texts.values()):
            yield finding


def _is_empty(value: object) -> bool:
    return any(name == "" for name in value) if isinstance(value, list) else value == ""
