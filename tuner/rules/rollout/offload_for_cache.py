"""Trade idle training states for KV cache

What it checks
--------------

Optimizer states, or weights and optimizer states, lie on the card during the rollout, and the step is shorter when they wait on the host and the KV cache gets their room.
The proposal offloads and raises the memory fraction together.

Why it matters
--------------

A sharded 7B model on eight GPUs keeps 11 GiB of weights and moments per GPU that do nothing during the rollout.
Moving them costs a second or two of copies per step; as cache they let more sequences run at once.

When it does not apply
----------------------

The cache already holds every sequence, or the copies take longer than the rollout gains.
A step waits for the host that schedules it already, as one of a small model does: more sequences take it as much longer.
Nobody says how long sequences are, and the step gains nothing where they are half as long as is assumed.
The host needs room for the states of all its GPUs.

Sources
-------

verl documentation, best practices: 0.8 to 0.9 when states are offloaded.
verl 0.9.1, ``workers/engine/fsdp/transformer_impl.py`` (``to``), ``workers/engine_workers.py``.
"""

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.rollout_engine import (
    AWAKE,
    pays_if_shorter,
    sequences_per_replica,
    starts,
    with_matching_limit,
    with_more_cache,
)
from tuner.rules.rungs import optimizer_offloaded, parameters_offloaded
from tuner.rules.wording import cached_sequences, count
from tuner.workload import Phase, Workload

RULE = Rule(
    code="ROL017",
    name="offload-for-cache",
    summary=N_("idle training states take room that the KV cache would turn into speed"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Offload what is idle during the rollout and raise the memory fraction."""
    workload, running = case.workload, case.rollout.concurrent_sequences
    of_replica = sequences_per_replica(workload)
    if not workload.generator.colocated or not starts(workload) or running >= of_replica:
        return None
    if case.short(*AWAKE) is not None:
        return None
    proposals = [
        proposal for proposal in _proposals(case) if case.pays(proposal) and pays_if_shorter(case, proposal)
    ]
    best = min(proposals, key=case.seconds, default=None)
    if best is None:
        return None
    return Finding(
        rule=RULE,
        message=_(
            "the KV cache holds {held} of a replica's {sequences} beside idle training states; with those on "
            "the host it holds {more}"
        ).format(
            held=cached_sequences(running, workload.batch),
            sequences=counted(of_replica, "sequence"),
            more=count(case.with_workload(best).rollout.concurrent_sequences),
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=best,
    )


def _proposals(case: Case) -> list[Workload]:
    """Offloaded workloads with more cache, faster than what more cache gives without offloading."""
    workload = case.workload
    limited = with_matching_limit(workload)
    without = with_more_cache(case, workload, than=limited) or limited
    moments = optimizer_offloaded(workload, Phase.ROLLOUT)
    everything = parameters_offloaded(moments, Phase.ROLLOUT)
    proposals = (with_more_cache(case, offloaded, than=without) for offloaded in (moments, everything))
    return [proposal for proposal in proposals if proposal is not None]
