"""Batches and GPUs that separate asynchronous training refuses

What it checks
--------------
Under ``trainer.v1.trainer_mode=separate_async``: ``data.train_batch_size`` against ``parameter_sync_step`` times ``ppo_mini_batch_size``, the rollout's own nodes and GPUs, and a reward model on the trainer's GPUs.
The override is the batch that verl wants, one node, or GPUs of its own for the reward model.

Why it matters
--------------
The trainer asserts all of them when it is made.
A step there is a number of mini-batches between two syncs of the weights, and the engines that generate never pause for others.

When it does not apply
----------------------
The other modes of the V1 trainer, and releases before 0.9.0.

Sources
-------
verl 0.9.1 ``trainer/ppo/v1/trainer_separate_async.py:55-77``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, ROLLOUT
from tuner.trainers.verl.source import source_of
from tuner.workload import Workload

RULE = Rule(
    code="CFG153",
    name="separate-async-refused",
    summary=N_("batches or GPUs that separate asynchronous training refuses"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

GUARDS = (CodeGuard(words="parameter_sync_step ppo_mini_batch_size", releases=Releases(since="0.9.0")),)

_MODE = "trainer.v1.trainer_mode"
_BATCH = "data.train_batch_size"
_STEP = "trainer.v1.separate_async.parameter_sync_step"
_MINI = f"{ACTOR}.ppo_mini_batch_size"
_REWARD = "reward.reward_model"

Problem = tuple[str, str, object]


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per assertion that fails."""
    source = source_of(settings, version)
    if not source.v1_trainer or settings.text(_MODE) != "separate_async":
        return
    for key, what, value in _problems(settings, workload):
        yield report(
            RULE,
            settings,
            _("{what} under {mode}=separate_async: {release} asserts otherwise").format(
                what=what, mode=_MODE, release=workload.release
            ),
            keys=[key, _MODE],
            overrides=[assign(settings, key, value)],
        )


def _problems(settings: Settings, workload: Workload) -> Iterator[Problem]:
    step = settings.integer(_STEP, default=1, minimum=1)
    mini = settings.integer(_MINI, default=1, minimum=1)
    prompts = workload.batch.prompts
    if prompts != step * mini:
        yield (
            _BATCH,
            _("{batch_key}={prompts} is not {step_key}={step} times {mini_key}={mini}").format(
                batch_key=_BATCH, prompts=prompts, step_key=_STEP, step=step, mini_key=_MINI, mini=mini
            ),
            step * mini,
        )
    for key, value in (
        (f"{ROLLOUT}.nnodes", 1),
        (f"{ROLLOUT}.n_gpus_per_node", workload.cluster.gpus_per_node),
    ):
        if not settings.integer(key, default=0):
            yield key, _("{key}=0 leaves the rollout no GPUs of its own").format(key=key), value
    pool = f"{_REWARD}.enable_resource_pool"
    if settings.flag(f"{_REWARD}.enable") and not settings.flag(pool):
        yield pool, _("a reward model shares GPUs that never pause"), True
