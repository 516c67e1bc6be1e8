"""Keep a sequence on one GPU where it fits

What it checks
--------------

GPUs share each sequence in the actor and its reference, and fewer GPUs per sequence, with at least one sequence as the budget, are affordable and faster.

Why it matters
--------------

Ulysses exchanges queries, keys, values and outputs of every layer between its GPUs, twice per pass, and nothing hides that.
The same GPUs working on different sequences exchange only weights and gradients, which overlap with computation.

When it does not apply
----------------------

The sequence does not fit on fewer GPUs.
So few sequences come per optimizer step that each GPU would not get one.

Sources
-------

DeepSpeed Ulysses (arXiv:2309.14509), communication volume.
verl documentation, performance tuning guide, "Ulysses Sequence Parallel for Long Context Training".
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.sequence_sharing import paying_together

RULE = Rule(
    code="SEQ003",
    name="ulysses-not-needed",
    summary=N_("GPUs share sequences that would fit on fewer"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Share sequences between fewer GPUs where that is faster."""
    best = min(paying_together(case), key=case.seconds, default=None)
    if best is None:
        return None
    now, then = (job.actor.engine.parallel.ulysses for job in (case.workload, best))
    return Finding(
        rule=RULE,
        message=_(
            "{now} GPUs share each sequence of at most {sequence_tokens:,} tokens, which fits on {then}"
        ).format(now=now, sequence_tokens=case.workload.batch.reached_tokens, then=then),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=case.workload.actor_update.phase,
        proposal=best,
    )
