"""Lower the update's micro-batch until it fits

What it checks
--------------

The update is over the limit with a fixed number of sequences per micro-batch, and fewer need less.
The proposal is the largest divisor of the rank's mini-batch that fits.

Why it matters
--------------

A fixed number of sequences fits only if it fits when all of them are as long as they may be.
Such a batch can take thousands of steps to come, and then ends the job.

When it does not apply
----------------------

One sequence is too long already: then it has to be shared by several GPUs.

Sources
-------

verl documentation, performance tuning guide, "Batch Size Tuning Tips".
verl 0.9.1, ``workers/engine/utils.py``.
"""

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, ngettext
from tuner.rules.case import Case
from tuner.rules.ladder import due
from tuner.rules.passes import actor_update, smaller
from tuner.rules.rungs import one_sequence
from tuner.rules.wording import over
from tuner.workload import Phase, Workload

RULE = Rule(
    code="BAT005",
    name="micro-batch-too-large",
    summary=N_("the update does not fit and a smaller micro-batch helps"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Lower the fixed micro-batch of the update."""
    site = actor_update(case.workload)
    if site.dynamic or due(case, one_sequence, among=(Phase.UPDATE_ACTOR, Phase.TRAIN)) is None:
        return None
    proposal = smaller(case, site)
    if proposal is None or not case.lowers_much(proposal, site.phase):
        return None
    return lowered(case, proposal, site.phase)


def lowered(case: Case, proposal: Workload, phase: Phase) -> Finding:
    """What is said of a proposal with fewer sequences in a micro-batch, where this phase is short."""
    fewer = proposal.actor.update.batching.micro_batch_sequences
    return Finding(
        rule=RULE,
        message=ngettext(
            "{shortage} with {sequences} in a micro-batch; {fewer} needs less",
            "{shortage} with {sequences} in a micro-batch; {fewer} need less",
            fewer,
        ).format(
            shortage=over(case, phase),
            sequences=counted(case.workload.actor.update.batching.micro_batch_sequences, "sequence"),
            fewer=fewer,
        ),
        severity=case.severity(phase),
        evidence=Evidence.MODELLED,
        phase=phase,
        proposal=proposal,
    )
