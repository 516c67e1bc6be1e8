"""Do not reserve sampling memory for sequences that cannot run

What it checks
--------------

The limit on running sequences is more than twice what the KV cache holds at full length, or more than a replica ever has, and a lower limit leaves enough memory for the cache to shorten the rollout.

Why it matters
--------------

The engine's profile run samples for as many sequences as may run: logits, float32 copies, sorted values or probabilities, 18 bytes per vocabulary entry and sequence in vLLM 0.24, 28 up to 0.12.
At 1024 sequences and 152,064 entries that is 2.6 or 4.1 GiB that the cache does not get.
Sequences beyond the cache are preempted and computed again.

When it does not apply
----------------------

A larger memory fraction fits: then the cache grows to the sequences.
Responses are far shorter than their maximum: then the cache holds more of them than is counted here, which is why the rule leaves a factor of two.

Sources
-------

vLLM, ``v1/worker/gpu_model_runner.py``, ``_dummy_sampler_run``; ``v1/core/sched/scheduler.py`` (preemption by recomputation).
verl 0.9.1, ``experimental/agent_loop/agent_loop.py`` (``num_preempted``).
"""

from math import ceil

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.rollout_engine import ALIGNMENT, AWAKE, sequences_per_replica, starts, with_more_cache
from tuner.rules.wording import cached_sequences, count
from tuner.workload import Phase

RULE = Rule(
    code="ROL006",
    name="max-sequences-beyond-cache",
    summary=N_("more sequences may run than the KV cache holds or a replica has"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)

SHORTER_RESPONSES = 2  # sequences in the cache for each one of full length


def check(case: Case) -> Finding | None:
    """Lower the limit to what can run."""
    workload, rollout = case.workload, case.workload.generator
    of_replica = sequences_per_replica(workload)
    cached = case.rollout.concurrent_sequences
    usable = min(of_replica, SHORTER_RESPONSES * max(1, cached)) / rollout.data_parallel
    limit = ALIGNMENT * ceil(usable / ALIGNMENT)
    if limit >= rollout.max_sequences or not rollout.sequences_adjustable:
        return None
    if not starts(workload) or case.short(*AWAKE) is not None:
        return None
    if with_more_cache(case, workload, than=workload) is not None:
        return None
    proposal = workload.with_rollout(max_sequences=limit)
    if not case.pays(proposal):
        return None
    return Finding(
        rule=RULE,
        message=_("{sequences} may run; a replica has {of_replica} and its cache holds {held}").format(
            sequences=counted(rollout.max_sequences, "sequence"),
            of_replica=count(of_replica),
            held=cached_sequences(cached, workload.batch),
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=proposal,
    )
