"""Make rollout replicas as wide as is fastest

What it checks
--------------

Another tensor-parallel size of the rollout engine leaves room for weights and cache, and shortens the step.
Every smaller size is tried, with a smaller memory fraction where its weights lack room else.
Sizes of 2, 4 and 8 GPUs within a node are tried where the KV cache holds fewer sequences of full length than a replica has.

Why it matters
--------------

Each replica decodes its own sequences without talking to the others.
A wider replica reads a smaller share of the weights per GPU, but pays two all-reduces per layer and step.
Smaller replicas hold the weights more often, so each GPU has less cache; the model weighs one against the other.
Two GPUs with a 14B model each have 28 GiB of weights twice; as one replica they have it once, and the cache gets the rest.

When it does not apply
----------------------

The weights leave too little cache on one GPU, or the few sequences of a step spread too thinly over many replicas.
Nobody says how long sequences are, and wider replicas gain nothing where they are half as long as is assumed.
A step waits for the host that schedules it already: more sequences take it as much longer.
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
from tuner.rules.rollout_engine import (
    affordable,
    pays_if_shorter,
    sequences_per_replica,
    starts,
    step_waits_for_host,
    tensor_sizes,
)
from tuner.rules.wording import cached_sequences, count
from tuner.workload import Phase, Workload

RULE = Rule(
    code="ROL008",
    name="rollout-tensor-parallel",
    summary=N_("rollout replicas of another width fit and are faster"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)

WIDER = (2, 4, 8)  # GPUs of a replica that has more cache: powers of two, as its all-reduces want them


def check(case: Case) -> Finding | None:
    """Make replicas as wide as is fastest."""
    rollout = case.workload.generator
    if rollout.expert_parallel > 1:
        return None
    best = min((*_narrower(case), *_wider(case)), key=case.seconds, default=None)
    if best is None:
        return None
    lowered = best.generator.memory_fraction != rollout.memory_fraction
    narrower = best.generator.tensor_parallel < rollout.tensor_parallel
    return Finding(
        rule=RULE,
        message=_message_of_width(case, best) if narrower else _message_of_cache(case, best),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=best,
        notes=(_fraction_note(best.generator.memory_fraction, case.workload),) if lowered else (),
    )


def _narrower(case: Case) -> list[Workload]:
    """Smaller replicas that pay."""
    now = case.workload.generator.tensor_parallel
    return _paying(case, [size for size in _sizes(case.workload) if size < now])


def _wider(case: Case) -> list[Workload]:
    """Wider replicas that pay, where the cache holds back sequences that a step could take."""
    workload = case.workload
    now, running = workload.generator.tensor_parallel, case.rollout.concurrent_sequences
    if not starts(workload) or running >= sequences_per_replica(workload) or step_waits_for_host(workload):
        return []
    wider = _paying(case, [size for size in _sizes(workload) if size > now and size in WIDER])
    return [proposal for proposal in wider if pays_if_shorter(case, proposal)]


def _sizes(workload: Workload) -> list[int]:
    return tensor_sizes(workload.model, workload.generator, workload.cluster.gpus_per_node)


def _paying(case: Case, sizes: list[int]) -> list[Workload]:
    sized = (affordable(case, case.workload.with_rollout(tensor_parallel=size)) for size in sizes)
    return [proposal for proposal in sized if proposal is not None and case.faster(proposal)]


def _message_of_width(case: Case, best: Workload) -> str:
    rollout, smaller = case.workload.generator, best.generator
    return ngettext(
        "{replicas} of {gpus} generates; weights and cache fit {more_replicas} of {fewer_gpus}",
        "{replicas} of {gpus} generate; weights and cache fit {more_replicas} of {fewer_gpus}",
        rollout.replicas,
    ).format(
        replicas=counted(rollout.replicas, "replica"),
        gpus=counted(rollout.replica_gpus, "GPU"),
        more_replicas=smaller.replicas,
        fewer_gpus=smaller.replica_gpus,
    )


def _message_of_cache(case: Case, best: Workload) -> str:
    return _(
        "the KV cache holds {held} of a replica's {sequences}; with {gpus} each it holds {more} of {of_replica}"
    ).format(
        held=cached_sequences(case.rollout.concurrent_sequences, case.workload.batch),
        sequences=counted(sequences_per_replica(case.workload), "sequence"),
        gpus=counted(best.generator.replica_gpus, "GPU"),
        more=count(case.with_workload(best).rollout.concurrent_sequences),
        of_replica=count(sequences_per_replica(best)),
    )


def _fraction_note(fraction: float, workload: Workload) -> str:
    return _("their memory fraction is {fraction:.2f} instead of {before:.2f}, so that all fits").format(
        fraction=fraction, before=workload.generator.memory_fraction
    )
