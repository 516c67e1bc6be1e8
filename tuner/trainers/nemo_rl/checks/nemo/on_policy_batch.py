"""A ratio of 1 by decree with several optimizer steps

What it checks
--------------
``loss_fn.force_on_policy_ratio`` against ``policy.train_global_batch_size``, which then has to be all responses of a step.

Why it matters
--------------
Behind the first optimizer step the policy is no longer the one that generated; NeMo-RL asserts that there is only one.

Sources
-------
NeMo-RL v0.6.0 and v0.7.0 ``nemo_rl/algorithms/grpo.py`` (``setup``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.trainers.nemo_rl.checks.report import report
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.workload import Workload

RULE = Rule(
    code="NRL002",
    name="nemo-on-policy-batch",
    summary=N_("a ratio of 1 by decree with several optimizer steps"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)
_KEY = "loss_fn.force_on_policy_ratio"
_SIZE = "policy.train_global_batch_size"


def check(source: SettingsByMeaning, workload: Workload) -> Iterator[Finding]:
    """A finding where an optimizer step is not the whole batch."""
    sequences = workload.batch.sequences
    step = source.integer("mini_batch", default=sequences)
    if not source.flag("on_policy") or step == sequences:
        return
    yield report(
        RULE,
        source,
        _("{key} asks for {size}={sequences}, all responses of a step, and it is {step}").format(
            key=_KEY, size=_SIZE, sequences=sequences, step=step
        ),
        keys=(_KEY, _SIZE),
        overrides=(f"{_SIZE}={sequences}",),
    )
