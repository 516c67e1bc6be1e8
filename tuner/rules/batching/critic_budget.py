"""Let the critic take more at a time than the actor

What it checks
--------------

The critic's forward or training pass takes no more at a time than fits, and a larger budget or micro-batch shortens the step.

Why it matters
--------------

A critic ends in one column instead of a vocabulary, so its tokens cost activations but no logits.
At least twice the actor's budget usually fits, and examples use four times.

When it does not apply
----------------------

The release ignores the critic's own sizes; a check of the trainer says so.
The size of the update weighs tokens: then that of the forward pass, which does not, is advised by itself.
The critic is much larger than the actor.

Sources
-------

verl documentation, performance tuning guide, "Allow larger micro-batch sizes for critic and reward models".
verl 0.9.1, ``trainer/ppo/v1/trainer_base.py`` (one budget for both passes); verl #7462, #7465.
"""

from tuner.counted import agreeing
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.passes import Site, critic_sizes_agree, larger, site_of
from tuner.rules.wording import longest, sequences
from tuner.workload import Backend, Phase, Workload

RULE = Rule(
    code="BAT008",
    name="critic-budget",
    summary=N_("the critic's passes can take more at a time"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Raise the size of the critic's passes."""
    raised, passes = case, dict[Phase, str]()
    for _round in range(2):  # a shorter step can make the other pass's gain worth mentioning
        for site in _sites(raised.workload):
            size = larger(raised, site)
            if size is not None:
                passes.setdefault(
                    site.phase,
                    _("{sequences} in {phase}").format(
                        sequences=longest(site.size(raised.workload)), phase=site.phase.value
                    ),
                )
                raised = case.with_workload(site.resized(raised.workload, size))
    if not passes:
        return None
    return Finding(
        rule=RULE,
        message=_("the critic has no vocabulary, yet takes {passes} at a time; {fitting}").format(
            passes=_joined(list(passes.values())), fitting=_fitting(raised.workload)
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=next(iter(passes)),
        proposal=raised.workload,
    )


def _sites(workload: Workload) -> list[Site]:
    megatron = workload.critic is not None and workload.critic.engine.backend is Backend.MEGATRON
    apart = workload.batch.loss_averages_micro_batches and not megatron  # BAT015 sizes the forward pass
    passes = (
        site_of(workload, Phase.UPDATE_CRITIC),
        None if apart or critic_sizes_agree(workload) else site_of(workload, Phase.VALUES),
    )
    return [site for site in passes if site is not None and site.size(workload) >= 1]


def _joined(passes: list[str]) -> str:
    if len(passes) == 1:
        return passes[0]
    return _("{one_pass} and {other_pass}").format(one_pass=passes[0], other_pass=passes[1])


def _fitting(workload: Workload) -> str:
    sizes = [site.size(workload) for site in _sites(workload)]
    if len(sizes) == 1:
        return agreeing(sizes[0], "{size} fits", "{size} fit").format(size=sequences(sizes[0]))
    return _("{size} and {other_size} fit").format(size=sequences(sizes[0]), other_size=sequences(sizes[1]))
