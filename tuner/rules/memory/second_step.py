"""Expect the optimizer's states at the second wake-up

What it checks
--------------

Rollout or wake-up is over the limit with the optimizer's states on the card, and no memory fraction with which the engine starts helps enough.
So it speaks where the smaller cache would make the step longer than the copies do.

Why it matters
--------------

AdamW allocates its moments, eight bytes per parameter and shard, in the first optimizer step.
The first rollout runs without them, so the job starts, trains once and fails when the engine wakes up for the second.
With the states on the host between updates, every step is like the first.

When it does not apply
----------------------

A smaller memory fraction fits and its cache still holds what runs: that costs no copies, and is named instead.

Sources
-------

torch, ``optim/adamw.py`` (states are created in ``step``).
verl 0.9.1, ``workers/engine_workers.py`` (order of wake-up and offload).
verl #302, #729.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import wake_up_without_states
from tuner.rules.rungs import optimizer_offloaded
from tuner.rules.wording import gib, over

RULE = Rule(
    code="MEM008",
    name="second-step",
    summary=N_("the rollout engine cannot wake up beside the optimizer states that the first step creates"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Offload optimizer states that keep the engine from waking up."""
    phase = wake_up_without_states(case)
    if phase is None:
        return None
    proposal = optimizer_offloaded(case.workload, phase)
    states = case.peak_bytes(phase) - case.with_workload(proposal).peak_bytes(phase)
    return Finding(
        rule=RULE,
        message=_("{shortage}, {states} of it optimizer states that appear after the first step").format(
            shortage=over(case, phase), states=gib(states)
        ),
        severity=case.severity(phase),
        evidence=Evidence.MODELLED,
        phase=phase,
        proposal=proposal,
    )
