"""A batch of responses that optimizer steps or ranks cannot share evenly

What it checks
--------------
The responses of a step, ``grpo.num_prompts_per_step`` times ``grpo.num_generations_per_prompt``, against ``policy.train_global_batch_size``, and that against the ranks that see different sequences.

Why it matters
--------------
NeMo-RL asserts both when it shards the first batch, after the first generation.

Sources
-------
NeMo-RL v0.5.0 to v0.7.0 ``nemo_rl/distributed/batched_data_dict.py`` (``shard_by_batch_size``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.trainers.nemo_rl.checks.report import report
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.workload import Workload

RULE = Rule(
    code="NRL001",
    name="nemo-batch-indivisible",
    summary=N_("a batch of responses that optimizer steps or ranks cannot share evenly"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)
_KEY = "policy.train_global_batch_size"


def check(source: SettingsByMeaning, workload: Workload) -> Iterator[Finding]:
    """A finding for the first of both that leaves a rest."""
    sequences, ranks = workload.batch.sequences, workload.actor.engine.parallel.data
    step = source.integer("mini_batch", default=sequences)
    if sequences % step:
        message = _("{sequences} responses of a step do not divide by {key}={step}, which NeMo-RL asserts")
    elif step % ranks:
        message = _("{key}={step} does not divide by the {ranks} ranks that share it, which NeMo-RL asserts")
    else:
        return
    size = _nearest(step, sequences, ranks)
    overrides = () if size is None else (f"{_KEY}={size}",)
    yield report(
        RULE,
        source,
        message.format(sequences=sequences, key=_KEY, step=step, ranks=ranks),
        keys=(_KEY, "grpo.num_prompts_per_step", "grpo.num_generations_per_prompt"),
        overrides=overrides,
    )


def _nearest(step: int, sequences: int, ranks: int) -> int | None:
    """The size nearest to what is set that leaves no rest; None where there is none."""
    sizes = [size for size in range(ranks, sequences + 1, ranks) if sequences % size == 0]
    return min(sizes, key=lambda size: abs(size - step), default=None)
