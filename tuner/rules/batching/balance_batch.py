"""Let the trainer balance tokens between ranks

What it checks
--------------

The trainer deals sequences out as they come, and evening out the tokens of the ranks shortens the step.

Why it matters
--------------

Data-parallel ranks wait for each other in every pass, so the one with the longest sequences sets the pace.
With lengths spread evenly up to their maxima, 64 sequences on each of 8 ranks leave the slowest some 8 % above the mean.
Balancing is a sort on the controller, which costs milliseconds.

When it does not apply
----------------------

Each rank holds a fixed number of sequences per micro-batch, in a release that leaves a rank's sequences in the order in which they came: then the longest micro-batch sets the pace, however whole ranks are balanced.
Sequences are padded: every rank computes as many tokens.
The V1 trainer of verl 0.9 balances whatever the key says.
Sequences change places within a batch, so mini-batches hold others than before; they are as independent.

Sources
-------

verl 0.7.1, ``trainer/ppo/ray_trainer.py``, ``_balance_batch``; ``utils/seqlen_balancing.py``, ``get_seqlen_balanced_partitions``.
verl 0.9.1, ``trainer/ppo/v1/trainer_base.py:582``.
"""

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case

RULE = Rule(
    code="BAT012",
    name="balance-batch",
    summary=N_("sequences are dealt out to the ranks as they come, whatever their length"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Balance the ranks where they wait for each other."""
    batch, ranks = case.workload.batch, case.workload.actor.engine.parallel.data
    proposal = case.workload.with_batch(balanced=True)
    if batch.balanced or not case.pays(proposal):
        return None
    return Finding(
        rule=RULE,
        message=_(
            "{sequences} are dealt out to {ranks} as they come, and all wait for the rank with "
            "the most tokens"
        ).format(sequences=counted(batch.sequences, "sequence"), ranks=counted(ranks, "rank")),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=case.workload.actor_update.phase,
        proposal=proposal,
    )
