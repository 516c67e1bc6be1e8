"""Raise the update's micro-batch up to the mini-batch

What it checks
--------------

The update takes a fixed number of sequences at a time, and a larger divisor of the rank's mini-batch fits and is faster.

Why it matters
--------------

All that counts for the optimizer is the mini-batch.
Each micro-batch less saves one gathering of all weights, one reduction of all gradients and one launch of all kernels.
At best one micro-batch is the whole mini-batch of the rank.

When it does not apply
----------------------

A token budget fills the micro-batches: see the rule on that.
Sequences differ much in length: then a token budget is better than any fixed number.

Sources
-------

verl documentation, performance tuning guide, "Batch Size Tuning Tips", second tip.
verl 0.9.1, ``workers/engine/utils.py`` (the micro-batch must divide the local mini-batch).
"""

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, ngettext
from tuner.rules.case import Case
from tuner.rules.passes import actor_update, beyond, larger

RULE = Rule(
    code="BAT004",
    name="micro-batch-size",
    summary=N_("a larger micro-batch for the update fits and is faster"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Raise the fixed micro-batch of the update."""
    workload = case.workload
    site = actor_update(workload)
    size = None if site.dynamic else larger(case, site)
    if size is None:
        return None
    return Finding(
        rule=RULE,
        message=ngettext(
            "the update takes {taken} of the rank's {sequences} at a time; {size} fits",
            "the update takes {taken} of the rank's {sequences} at a time; {size} fit",
            size,
        ).format(
            taken=site.one_pass.batching.micro_batch_sequences,
            sequences=counted(site.sequences(workload), "sequence"),
            size=size,
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=site.phase,
        proposal=site.resized(workload, size),
        notes=beyond(case, site, size),
    )
