"""Give the rollout engine the memory its KV cache can turn into speed

What it checks
--------------

The KV cache holds fewer sequences of full length than a replica has, a larger memory fraction fits in every phase, and the rollout is shorter with it.
The proposal is the smallest fraction that runs as many sequences as the largest one that fits.
Where the limit on running sequences would then keep them waiting, it is raised with it.

Why it matters
--------------

Decoding reads all weights once per step, whatever the number of running sequences.
Twice the sequences therefore take far less than twice the time, until the cache itself is what is read.
On an H100 a batch of Qwen3-4B took 48 s with room for a tenth of its sequences at once, 39 s with room for a third, and 36 s with room for all.
The engine admits sequences by what they have now, and those that find no room to grow are preempted and computed again.
The usual advice of 0.5 to 0.7 is a guess at what the trainer leaves free; here it is computed from what is resident at the wake-up.
With parameters and optimizer on the host between phases, values of 0.8 and above fit.

When it does not apply
----------------------

The engine already runs every sequence of its replica, or as many as it is allowed to.
Sequences end at different times and share their prompts, so a cache for a third of them at full length often holds them all.
A step waits for the host that schedules it already, as one of a small model does: more sequences take it as much longer.
The rollout of a copy hands a part of them to the engine at a time, and nobody knows how many.
Nobody says how long sequences are, and the step gains nothing where they are half as long as is assumed.
Nothing larger fits: then the room has to come from offloading.
The fraction means something else in every engine, so a value found for one must not be carried to another.

Sources
-------

verl 0.9.1, ``workers/rollout/vllm_rollout/vllm_async_server.py``.
vLLM, ``v1/worker/gpu_worker.py``, ``determine_available_memory``.
verl documentation, performance tuning guide, "Rollout Generation Tuning".
vLLM 0.24 on one H100, ``docs/validation/data/vllm-0.24-generation-h100-two-models.json``.
"""

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.rollout_engine import (
    pays_if_shorter,
    sequences_per_replica,
    starts,
    with_matching_limit,
    with_more_cache,
)
from tuner.rules.wording import cached_sequences, count
from tuner.workload import Phase

RULE = Rule(
    code="ROL001",
    name="rollout-memory-fraction",
    summary=N_("the KV cache limits the running sequences and a larger memory fraction fits"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Raise the memory fraction as far as it fits and the cache is used."""
    workload, running = case.workload, case.rollout.concurrent_sequences
    of_replica = sequences_per_replica(workload)
    if not starts(workload) or running >= of_replica or workload.generator.chunks_unknown:
        return None
    proposal = with_more_cache(case, workload, than=with_matching_limit(workload))
    if proposal is None or not case.faster(proposal) or not pays_if_shorter(case, proposal):
        return None
    return Finding(
        rule=RULE,
        message=_(
            "the KV cache holds {held} of a replica's {sequences}; with a fraction of {fraction:.2f}, which "
            "fits, it holds {more}"
        ).format(
            held=cached_sequences(running, workload.batch),
            sequences=counted(of_replica, "sequence"),
            fraction=proposal.generator.memory_fraction,
            more=count(case.with_workload(proposal).rollout.concurrent_sequences),
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=proposal,
    )
