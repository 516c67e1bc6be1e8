"""Keep a sequence on one GPU where it fits

What it checks
--------------

GPUs share each sequence, and fewer GPUs per sequence, with at least one sequence as the budget, are affordable and faster.

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

from msgspec.structs import replace

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.rules.case import Case
from tuner.rules.passes import site_of, with_dividing_sizes
from tuner.workload import Engine, Phase, Workload

RULE = Rule(
    code="SEQ003",
    name="ulysses-not-needed",
    summary="GPUs share sequences that would fit on fewer",
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Share sequences between fewer GPUs where that is faster."""
    workload = case.workload
    now, gpus = workload.actor.engine.parallel.ulysses, workload.actor.engine.parallel.gpus
    fewer = [
        ranks
        for ranks in range(1, now)
        if now % ranks == 0 and workload.batch.mini_batch_sequences % (gpus // ranks) == 0
    ]
    paying = [ranks for ranks in fewer if case.pays(_shared(workload, ranks))]
    if not paying:
        return None
    best = min(paying, key=lambda ranks: case.seconds(_shared(workload, ranks)))
    return Finding(
        rule=RULE,
        message=f"{now} GPUs share each sequence of at most {workload.batch.sequence_tokens:,} tokens, which fits"
        f" on {best}",
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.UPDATE_ACTOR,
        proposal=_shared(workload, best),
    )


def _shared(workload: Workload, ranks: int) -> Workload:
    def split(engine: Engine) -> Engine:
        return replace(engine, parallel=replace(engine.parallel, ulysses=ranks))

    changed = workload.with_actor(engine=split(workload.actor.engine))
    if workload.reference is not None:
        changed = changed.with_reference(engine=split(workload.reference.engine))
    for phase in (Phase.UPDATE_ACTOR, Phase.OLD_LOG_PROB, Phase.REF_LOG_PROB):
        site = site_of(changed, phase)
        if site is not None and site.dynamic and site.size(changed) < 1:
            changed = site.resized(changed, 1)
    return with_dividing_sizes(changed)
