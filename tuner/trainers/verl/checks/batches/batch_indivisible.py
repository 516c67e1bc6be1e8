"""A training batch that the GPUs cannot share evenly

What it checks
--------------
The sequences of one step, ``data.train_batch_size`` times ``rollout.n``, against what the release divides them by, and with static batches one rank's share against the micro-batch sizes of the log-probability passes.
The override is the smallest larger batch that divides evenly, or the largest micro-batch size that divides the share.
Under Megatron it is the micro-batch that divides a rank's mini-batch, where that one does not and is enough.

Why it matters
--------------
With static batches verl asserts at start-up that the sequences divide by the number of GPUs (under Megatron by the data-parallel ranks times the micro-batch size).
With dynamic batches 0.6.0 and later skip that, but the balancing of sequences over the ranks asserts it in the first step; 0.9.0's V1 trainer adds dummy sequences instead, which other advice counts.
From 0.8.0 on the forward passes assert that a static micro-batch divides one rank's share.

When it does not apply
----------------------
With ``trainer.balance_batch=False`` and dynamic batches nothing is balanced.

Sources
-------
verl 0.9.1 ``utils/config.py:103-127``, verl 0.4.1 ``trainer/ppo/ray_trainer.py:367-377`` (there with dynamic batches as well).
``get_seqlen_balanced_partitions(equal_size=True)``: verl 0.6.1 and 0.8.0 ``trainer/ppo/ray_trainer.py`` (``_balance_batch``), ``utils/seqlen_balancing.py:147`` (0.8.0); verl 0.9.1 ``trainer/ppo/v1/trainer_base.py:1619-1621``.
``prepare_micro_batches``: verl 0.9.1 ``workers/engine/utils.py``.
"""

from collections.abc import Iterator

from tuner.counted import counted
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.even_batches import (
    MICRO_BATCH,
    as_asserted,
    even_micro_batch,
    even_prompts,
    step_divisor,
)
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import REFERENCE, ROLLOUT, static_batches
from tuner.trainers.verl.releases import ENGINE_PREVIEW
from tuner.workload import Phase, Workload

RULE = Rule(
    code="CFG110",
    name="batch-indivisible",
    summary=N_("a training batch that the GPUs cannot share evenly"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

GUARDS = (
    CodeGuard(words="real_train_batch_size", static=Releases(since="0.6.0")),
    # both stand in the step: sequences are balanced behind the generation, and never those of a validation
    CodeGuard(words="equal_size seqlen_list", in_training=True, switch="trainer.balance_batch"),
    CodeGuard(
        words="prepare_micro_batches total_data_size", in_training=True, releases=Releases(since="0.7.1")
    ),
)

_ENGINE = Releases(since=ENGINE_PREVIEW)
_KEY = "data.train_batch_size"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for the batch, or else one per micro-batch size that does not divide it."""
    workload = as_asserted(settings, workload, version)
    batch = workload.batch
    divisor = step_divisor(settings, workload, version)
    if divisor is not None and batch.sequences % divisor:
        yield report(
            RULE,
            settings,
            _("{prompts} x {responses} do not divide by {divisor}, which {release} asserts").format(
                prompts=counted(batch.prompts, "prompt"),
                responses=counted(batch.responses_per_prompt, "response"),
                divisor=divisor,
                release=workload.release,
            ),
            keys=[_KEY],
            overrides=[_remedy(settings, workload, version)],
        )
    elif version in _ENGINE and static_batches(settings):
        yield from _forward_passes(settings, workload)


def _remedy(settings: Settings, workload: Workload, version: str) -> str:
    """The override: the micro-batch that its mini-batch asks for anyway, where it is enough, else the batch."""
    micro = even_micro_batch(settings, workload, version)
    if micro is not None and workload.batch.sequences % (workload.actor.engine.parallel.data * micro) == 0:
        return assign(settings, MICRO_BATCH, micro)
    return assign(settings, _KEY, even_prompts(settings, workload, version))


def _forward_passes(settings: Settings, workload: Workload) -> Iterator[Finding]:
    share = workload.batch.sequences // workload.actor.engine.parallel.data
    passes = [(ROLLOUT, Phase.OLD_LOG_PROB)]
    if workload.reference is not None:
        passes.append((REFERENCE, Phase.REF_LOG_PROB))
    for section, phase in passes:
        key = f"{section}.log_prob_micro_batch_size_per_gpu"
        micro = settings.integer(key, minimum=1)
        if micro is not None and share % micro:
            divisor = next(size for size in range(min(micro, share), 0, -1) if share % size == 0)
            yield report(
                RULE,
                settings,
                _(
                    "{key}={micro} does not divide one rank's share of a step, {sequences}, which "
                    "{release} asserts"
                ).format(
                    key=key, micro=micro, sequences=counted(share, "sequence"), release=workload.release
                ),
                keys=[key],
                overrides=[assign(settings, key, divisor)],
                phase=phase,
            )
