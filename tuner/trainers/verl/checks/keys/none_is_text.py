"""The text None where the release has null

What it checks
--------------
Keys whose default is null, and ``trainer.default_hdfs_dir``, set to the bare word ``None``.
The override is ``null``.

Why it matters
--------------
Hydra and YAML know ``null`` alone: ``None`` is a text of four letters, and code that asks ``is None`` goes the other way.
With ``trainer.default_hdfs_dir=None`` verl looks for a checkpoint on HDFS before the first step and raises ``NotImplementedError``, unless ``trainer.resume_mode`` is ``disable``.
Workers of copies of verl 0.1 copy every checkpoint into a folder of that name, and stop because they have just made it.

When it does not apply
----------------------
Keys whose default is something else, and text with more in it.
The V1 trainer of verl 0.9 and ``main_ppo_sync`` of 0.8 load nothing from HDFS: what is said there is a warning.

Sources
-------
Hydra documentation, "Extended override syntax" (``null`` is the one word for nothing).
verl 0.3.0.post1 ``trainer/ppo/ray_trainer.py:689-694``, 0.9.1 there 1053-1058 (``_load_checkpoint``).
Search-R1 at a14dc3a ``verl/workers/fsdp_workers.py`` (``save_checkpoint``: ``hdfs_io.copy``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.inputs.tree import contains, dotted, lookup
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.source import source_of
from tuner.workload import Workload

RULE = Rule(
    code="CFG204",
    name="none-is-text",
    summary=N_("the text None where the release has null"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

GUARDS = (
    CodeGuard(words="default_hdfs_dir NotImplementedError load from hdfs", file="trainer/ppo/ray_trainer"),
)

_TEXT = "None"
_STORAGE, _RESUME = "trainer.default_hdfs_dir", "trainer.resume_mode"
_SYNC = "main_ppo_sync"  # of 0.8.0, whose trainer loads by itself


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for every key that is nothing by default, and the text ``None`` here.

    Copies of verl 0.1 have a folder as the default of one of them, which their code asks to be nothing.
    """
    for path in settings.origins:
        key = dotted(path)
        asked = key == _STORAGE or _is_null(settings, path)
        if settings.get(key) == _TEXT and asked and settings.knows(key):
            yield _finding(settings, workload, version, key)


def _is_null(settings: Settings, path: tuple[str, ...]) -> bool:
    return contains(settings.defaults, path) and lookup(settings.defaults, path) is None


def _finding(settings: Settings, workload: Workload, version: str, key: str) -> Finding:
    loads = key == _STORAGE and _loads_at_start(settings, version)
    if loads:
        text = _(
            "{key}=None is the text None, the name of a folder: {release} raises NotImplementedError as it "
            "looks there for a checkpoint to load; the word for nothing is null"
        )
    elif key == _STORAGE and _copies_into_made_folder(settings):
        text = _(
            "{key}=None is the text None, the name of a folder: the first checkpoint makes it, and stops "
            "as it is copied to where something is; the word for nothing is null"
        )
    else:
        text = _(
            "{key}=None is the text None, which {release} does not take for nothing: the word for that is null"
        )
    return report(
        RULE,
        settings,
        text.format(key=key, release=workload.release),
        keys=[key],
        overrides=(assign(settings, key, None),),
        severity=None if loads else Severity.WARNING,
        effect=Numerics.EXACT if key == _STORAGE else None,
    )


def _loads_at_start(settings: Settings, version: str) -> bool:
    """Whether the trainer looks for a checkpoint where the key says, before anything else."""
    has = settings.has_statement
    if settings.program is not None or settings.started.endswith(_SYNC):
        return False
    if source_of(settings, version).v1_trainer or settings.get(_RESUME) == "disable":
        return False
    return has is None or has(GUARDS[0].words, GUARDS[0].file)


def _copies_into_made_folder(settings: Settings) -> bool:
    """Whether workers make the folder and then copy a checkpoint to it as if it were not there."""
    has = settings.has_statement
    if has is None or not settings.number("trainer.save_freq", default=-1) > 0:
        return False
    return has("save_checkpoint hdfs_io copy hdfs_path dst", "fsdp_workers", "dirs_exist_ok")
