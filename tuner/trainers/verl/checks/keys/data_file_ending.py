"""A data file whose name has no ending, or a folder in its place

What it checks
--------------
Every file of ``data.train_files`` and ``data.val_files``: whether the last part of its path has a dot.
There is no override: which file of a folder is meant, the launch's author knows.

Why it matters
--------------
Since 0.7.0 the dataset chooses the reader of a file by its ending, ``.parquet``, ``.json`` or, since 0.7.1, ``.jsonl``, and raises ``ValueError`` for what has none of them, as a folder has.

When it does not apply
----------------------
Releases before 0.7.0, which read whatever is named as Parquet.
A dataset class of the user's own (``data.custom_cls.path``), paths whose last part has a pattern or a dot, and what is left to fill in: a variable, a bare word, ``/path/to/train``.

Sources
-------
verl 0.7.0 ``utils/dataset/rl_dataset.py:157-162``, 0.7.1 lines 158-163, 0.8.0 lines 168-175, 0.9.1 lines 173-178.
"""

import re
from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import report
from tuner.workload import Workload

RULE = Rule(
    code="CFG215",
    name="data-file-ending",
    summary=N_("a data file without an ending, or a folder, of which the dataset knows no reader"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

_BY_ENDING = Releases(since="0.7.0")
_KEYS = ("data.train_files", "data.val_files")
_OWN = ("data.custom_cls.path", "data.datagen.path")
_NOT_PLAIN = ".*?[{"  # in the last part of a path: an ending or a pattern
_TO_FILL_IN = re.compile(r"[$<>]|path[/_]to|your|xxx", re.IGNORECASE)

GUARDS = (
    CodeGuard(words="Unsupported file format parquet_file", file="dataset/rl_dataset", releases=_BY_ENDING),
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding with every key that names such a file."""
    if version not in _BY_ENDING or any(settings.get(key) is not None for key in _OWN):
        return
    named = {key: path for key in _KEYS if settings.is_set(key) and (path := _without_ending(settings, key))}
    if not named:
        return
    values = ", ".join(f"{key}={path}" for key, path in named.items())
    text = _(
        "{values}: {release} reads a file by its ending, .parquet or .json, and raises ValueError for a "
        "folder or a file without one"
    )
    yield report(RULE, settings, text.format(values=values, release=workload.release), keys=list(named))


def _without_ending(settings: Settings, key: str) -> str:
    """The first path of a key that has no ending for certain; empty where all may have one."""
    value = settings.get(key)
    for path in value if isinstance(value, list) else [value]:
        if not isinstance(path, str) or "/" not in path or _TO_FILL_IN.search(path):
            continue
        last = path.rstrip("/").rpartition("/")[2]
        if last and not any(sign in last for sign in _NOT_PLAIN):
            return path
    return ""
