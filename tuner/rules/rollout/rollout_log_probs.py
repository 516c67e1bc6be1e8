"""Take the rollout's log-probabilities instead of computing them again

What it checks
--------------

The step computes the log-probabilities of all responses once more before it trains on them, and leaving that pass out takes a fifth of the step away.
The rollout engine then returns the log-probabilities of what it sampled, which stand in for it.

Why it matters
--------------

The pass is a forward pass of the policy over every sequence of the step, with weights and output head.
It finds numbers that the engine has already had while it sampled.

When it does not apply
----------------------

It changes the training, so it is never part of what is to be pasted.
The ratio of the loss is taken against the engine's probabilities, which differ from the trainer's by their kernels and dtypes: it no longer starts at 1, and clipping bounds the distance from another policy.
An engine with quantized weights or a quantized cache differs more.
A correction by importance weights between the two policies has nothing left to correct, because the ratio itself is that weight; rejection of responses that lie too far off still works.
The entropy of the policy, which the pass computes as well, is no longer logged.
Router replay that records the experts in this pass needs it.

Sources
-------

verl documentation, "Rollout Correction", bypass mode.
verl 0.6.1 ``trainer/ppo/ray_trainer.py`` (first release that has it), 0.7.1 ``trainer/ppo/rollout_corr_helper.py`` (``apply_bypass_mode``), 0.9.1 ``trainer/ppo/v1/trainer_base.py``.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.wording import spent
from tuner.workload import Phase, RolloutEngine, Workload

RULE = Rule(
    code="ROL018",
    name="rollout-log-probs",
    summary=N_("log-probabilities that the rollout engine had are computed again"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.CHANGED,
    yours=True,
)


def check(case: Case) -> Finding | None:
    """Leave the pass out where it is a large part of the step."""
    workload = case.workload
    returned = workload.generator.engine in (RolloutEngine.VLLM, RolloutEngine.SGLANG)
    computed = case.time.phase(Phase.OLD_LOG_PROB)
    if computed is None or not returned or not case.pays_another_training(_without(workload)):
        return None
    return Finding(
        rule=RULE,
        message=_(
            "log-probabilities of the responses are computed again in {seconds} of a step of {step}; "
            "the rollout engine can return those it sampled with"
        ).format(seconds=spent(case.interval(computed)), step=spent(case.step)),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.OLD_LOG_PROB,
        proposal=_without(workload),
        notes=(
            _(
                "The loss then compares the policy with the engine's probabilities, which differ "
                "from the trainer's"
            ),
        ),
    )


def _without(workload: Workload) -> Workload:
    return workload.with_rollout(returns_log_probs=True).with_actor(log_prob=None)
