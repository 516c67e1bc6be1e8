"""A micro-batch over all GPUs that is smaller than their number

What it checks
--------------
``ppo_micro_batch_size`` of the actor and the critic and ``log_prob_micro_batch_size`` of the rollout and the reference, which count the sequences of all GPUs, against the ranks that they are divided by.
The override is one sequence for each rank, in the ``_per_gpu`` form where the configuration has it.

Why it matters
--------------
The workers round the quotient down, and a rank is left with micro-batches of no sequence.
Releases assert that the actor's and the critic's size is large enough; the others, and copies of verl 0.1, divide by zero or split into pieces of none.
A launch gets there when it is taken to more GPUs than it was written for.

When it does not apply
----------------------
Under dynamic batching.
In a copy of verl that does not assert it, a launch that only validates: the passes that fail are those of training.
From 0.8.0 on nothing divides the size any more.

Sources
-------
verl 0.3.0.post1 ``workers/fsdp_workers.py:121-140`` (the quotient), ``trainer/ppo/ray_trainer.py:354`` and ``362`` (the assertions), ``workers/actor/dp_actor.py:209`` (``batch.split``); 0.7.1 ``workers/fsdp_workers.py:257-280``, ``workers/config/actor.py:228``.
"""

from collections.abc import Iterator

from tuner.counted import counted
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.global_sizes import GlobalSize, global_sizes
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import shards_with_fsdp
from tuner.trainers.verl.releases import ENGINE_PREVIEW
from tuner.workload import Workload

RULE = Rule(
    code="CFG191",
    name="micro-batch-below-ranks",
    summary=N_("a micro-batch over all GPUs that leaves a rank without a sequence"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

_DIVIDES = Releases(until=ENGINE_PREVIEW)

GUARDS = (
    CodeGuard(
        words="ppo_micro_batch_size device_mesh",
        fails=True,
        in_training=True,
        asserted="ppo_micro_batch_size n_gpus",
        releases=_DIVIDES,
        key="ppo_micro_batch_size",
    ),
    CodeGuard(
        words="log_prob_micro_batch_size device_mesh",
        fails=True,
        in_training=True,
        releases=_DIVIDES,
        key="log_prob_micro_batch_size",
    ),
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per size that is too small."""
    if version not in _DIVIDES or not shards_with_fsdp(workload):
        return
    for place in global_sizes(workload):
        value, ranks = settings.integer(place.key, minimum=1), place.engine.parallel.data
        beside = settings.get(place.per_gpu) is not None and not place.critic
        if value is None or value >= ranks or settings.flag(place.dynamic) or beside:
            continue
        yield report(
            RULE,
            settings,
            _("{key}={value} is fewer than {ranks}: {release} leaves each of them none, and stops").format(
                key=place.key, value=value, ranks=counted(ranks, "rank"), release=workload.release
            ),
            keys=[place.key],
            overrides=list(_one_each(settings, place, ranks)),
        )


def _one_each(settings: Settings, place: GlobalSize, ranks: int) -> Iterator[str]:
    """What gives each rank one sequence."""
    if place.per_gpu in settings:
        yield assign(settings, place.per_gpu, 1)
        yield assign(settings, place.key, None)
    else:
        yield assign(settings, place.key, ranks)
