"""Micro-batches of training and log-probabilities that differ under tensor parallelism

What it checks
--------------
With tensor parallelism of 4 or more, ``policy.train_micro_batch_size`` against ``policy.logprob_batch_size``.

Why it matters
--------------
Sums of many ranks round otherwise for another batch, so that the ratio of new and old probabilities is not 1 where it should be; NeMo-RL asserts that both are equal.

When it does not apply
----------------------
With ``loss_fn.force_on_policy_ratio``, or with ``NRL_IGNORE_TP_ACCURACY_CHECK`` in the environment of the launch, which no file says.

Sources
-------
NeMo-RL v0.5.0 to v0.7.0 ``nemo_rl/models/policy/lm_policy.py`` (``NRL_IGNORE_TP_ACCURACY_CHECK``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.trainers.nemo_rl.checks.report import report
from tuner.trainers.nemo_rl.tied_batches import LOG_PROB, TRAINING, are_compared, sizes, tensor_ranks
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.workload import Workload

RULE = Rule(
    code="NRL003",
    name="nemo-log-prob-batch",
    summary=N_("micro-batches of training and log-probabilities that differ under tensor parallelism"),
    severity=Severity.WARNING,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
)


def check(source: SettingsByMeaning, workload: Workload) -> Iterator[Finding]:
    """A finding where the two sizes differ."""
    training, log_prob = sizes(source)
    if not are_compared(source) or training == log_prob:
        return
    yield report(
        RULE,
        source,
        _(
            "NeMo-RL asserts under tensor parallelism of {ranks} that {first}={training} and "
            "{second}={log_prob} are equal"
        ).format(
            ranks=tensor_ranks(source),
            first=TRAINING,
            training=training,
            second=LOG_PROB,
            log_prob=log_prob,
        ),
        keys=(LOG_PROB, TRAINING),
        overrides=(f"{LOG_PROB}={training}",),
        notes=(_("it starts with NRL_IGNORE_TP_ACCURACY_CHECK=1 in its environment"),),
    )
