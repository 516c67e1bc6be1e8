"""Leave out a reference whose KL term has no weight

What it checks
--------------

The job has a reference, and its KL term is multiplied by 0 wherever it stands: in the loss, in the rewards, or in both.

Why it matters
--------------

The trainer keeps a second copy of the weights and computes log-probabilities of every sequence with it, and nothing is learnt from what comes of that.
The loss, its gradient and the rewards are the same without.
What is lost is a number in the log: the KL divergence from the reference.

When it does not apply
----------------------

Either term has a weight.
verl 0.3.0.post1, which has a reference whatever is set and puts the term into the rewards where the loss has none; a copy of it whose program drops the reference for some settings goes by those.
Something else than the KL term may learn from the reference: a copy's own code reads its log-probabilities, the policy's loss has keys that no release has, or the reference is given a model of its own, as a teacher is.
The logged number is what the run is watched by.

Sources
-------

verl 0.4.0 ``workers/actor/dp_actor.py:411-419`` and ``trainer/main_ppo.py:130``; 0.6.1 lines 500-510 and 231; 0.7.1 lines 647-657.
verl 0.8.0 and 0.9.1 ``workers/utils/losses.py:132-142`` and ``trainer/ppo/utils.py:79``.
verl 0.9.1 ``trainer/ppo/ray_trainer.py`` (``apply_kl_penalty``); 0.3.0.post1 line 882 and ``trainer/main_ppo.py:112-116``.
"""

from msgspec.structs import replace

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.wording import spent
from tuner.workload import Phase

RULE = Rule(
    code="ROL028",
    name="reference-without-weight",
    summary=N_("a reference whose KL term has no weight"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Do without the reference."""
    reference, computed = case.workload.reference, case.time.phase(Phase.REF_LOG_PROB)
    if reference is None or reference.weighs or computed is None:
        return None
    return Finding(
        rule=RULE,
        message=_(
            "the reference's log-probabilities take {seconds} of a step of {step}, and the weight of their KL "
            "term is 0"
        ).format(seconds=spent(case.interval(computed)), step=spent(case.step)),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.REF_LOG_PROB,
        proposal=replace(case.workload, reference=None),
        notes=(_("The KL divergence from the reference is no longer logged"),),
    )
