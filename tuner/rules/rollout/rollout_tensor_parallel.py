"""Prefer more rollout replicas over wider ones

What it checks
--------------

A smaller tensor-parallel size of the rollout engine leaves room for weights and cache, and shortens the step.
Every smaller size is tried, with a smaller memory fraction where its weights lack room else.

Why it matters
--------------

Each replica decodes its own sequences without talking to the others.
A wider replica reads a smaller share of the weights per GPU, but pays two all-reduces per layer and step.
Smaller replicas hold the weights more often, so each GPU has less cache; the model weighs one against the other.

When it does not apply
----------------------

The weights leave too little cache on one GPU, or the few sequences of a step spread too thinly over many replicas.
Expert parallelism ties this size to its own.

Sources
-------

verl documentation, performance tuning guide, "Rollout Generation Tuning".
HybridFlow (arXiv:2409.19256), section 8.4.
"""

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _, ngettext
from tuner.rules.case import Case
from tuner.rules.rollout_engine import affordable, tensor_sizes
from tuner.workload import Phase, Workload

RULE = Rule(
    code="ROL008",
    name="rollout-tensor-parallel",
    summary=N_("smaller rollout replicas fit and are faster"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Make replicas as small as is fastest."""
    workload, rollout = case.workload, case.workload.generator
    if rollout.expert_parallel > 1:
        return None
    sizes = tensor_sizes(workload.model, rollout, workload.cluster.gpus_per_node)
    smaller_sizes = (size for size in sizes if size < rollout.tensor_parallel)
    sized = (affordable(case, workload.with_rollout(tensor_parallel=size)) for size in smaller_sizes)
    paying = [proposal for proposal in sized if proposal is not None and case.faster(proposal)]
    if not paying:
        return None
    best = min(paying, key=case.seconds)
    smaller = best.generator
    lowered = smaller.memory_fraction != rollout.memory_fraction
    return Finding(
        rule=RULE,
        message=ngettext(
            "{replicas} of {gpus} generates; weights and cache fit {more_replicas} of {fewer_gpus}",
            "{replicas} of {gpus} generate; weights and cache fit {more_replicas} of {fewer_gpus}",
            rollout.replicas,
        ).format(
            replicas=counted(rollout.replicas, "replica"),
            gpus=counted(rollout.replica_gpus, "GPU"),
            more_replicas=smaller.replicas,
            fewer_gpus=smaller.replica_gpus,
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=best,
        notes=(_fraction_note(smaller.memory_fraction, workload),) if lowered else (),
    )


def _fraction_note(fraction: float, workload: Workload) -> str:
    return _("their memory fraction is {fraction:.2f} instead of {before:.2f}, so that all fits").format(
        fraction=fraction, before=workload.generator.memory_fraction
    )
