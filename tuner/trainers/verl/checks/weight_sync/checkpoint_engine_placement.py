"""A checkpoint engine for another placement

What it checks
--------------
``rollout.checkpoint_engine.backend`` against the GPUs that generate: on the trainer's own, or on others.
The override is the engine that this placement takes.

Why it matters
--------------
``naive`` hands weights over within a GPU; every other engine sends them from the trainer's processes to processes beside the rollout.
On shared GPUs those are the same processes: each would have to join the group twice, so the first weight synchronisation never ends, and the legacy workers have no such engine at all.
V1 with ``trainer_mode=separate_async`` asserts that it is not ``naive``.

When it does not apply
----------------------
Before 0.7.1, which has no such key.
A recipe that trains on GPUs of its own, as ``async_resources.actor_train`` says for ``async_flow``: it brings its own manager of checkpoint engines.
V1 trainers set ``naive`` themselves where generation shares the GPUs; the key is then without effect, and nothing is reported.

Sources
-------
verl 0.9.1 ``trainer/ppo/v1/trainer_separate_async.py:68``, ``trainer/ppo/v1/trainer_base.py:381-384``, ``trainer/ppo/ray_trainer.py:967``.
verl 0.8.0 and 0.9.1 ``checkpoint_engine/base.py`` (``CheckpointEngineManager.update_weights``), ``nccl_checkpoint_engine.py`` (``init_process_group``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.carriers import WITHIN_A_GPU
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.source import source_of
from tuner.workload import Phase, Workload

RULE = Rule(
    code="CFG145",
    name="checkpoint-engine-placement",
    summary=N_("a checkpoint engine that does not go with the GPUs that generate"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
)

GUARDS = (
    CodeGuard(words="checkpoint_engine backend naive", releases=Releases(since="0.9.0"), key="trainer_mode"),
    CodeGuard(  # which waits for the same processes twice
        words="CheckpointEngineManager update_weights build_process_group rollout",
        fails=True,
        releases=Releases(since="0.7.1"),
    ),
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where weights would go to the wrong place, or nowhere."""
    source = source_of(settings, version)
    key = source.key("sync.carrier")
    if key is None:
        return
    backend = settings.text(key, default=WITHIN_A_GPU)
    if source.v1_trainer:
        if source.text("v1_mode", default="sync") == "separate_async" and backend == WITHIN_A_GPU:
            yield report(
                RULE,
                settings,
                _(
                    "{key}={backend} reaches only engines on the trainer's GPUs: {release} asserts "
                    "another one under trainer_mode=separate_async"
                ).format(key=key, backend=backend, release=workload.release),
                keys=[key, *filter(None, [source.key("v1_mode")])],
                overrides=[assign(settings, key, "nccl")],
                phase=Phase.UPDATE_WEIGHTS,
            )
    elif workload.weight_sync.carrier is None and backend != WITHIN_A_GPU:
        yield report(
            RULE,
            settings,
            _(
                "{key}={backend} sends weights to other GPUs, and generation shares the trainer's: "
                "the first weight sync of {release} does not end"
            ).format(key=key, backend=backend, release=workload.release),
            keys=[key],
            overrides=[assign(settings, key, WITHIN_A_GPU)],
            phase=Phase.UPDATE_WEIGHTS,
        )
