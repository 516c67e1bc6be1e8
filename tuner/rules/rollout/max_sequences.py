"""Let the engine run as many sequences as its cache holds

What it checks
--------------

The limit on running sequences, not the KV cache, keeps sequences waiting.
The proposal is the number that the cache holds at full length, or that a replica has, and no more than the engine's largest CUDA graph is captured for.

Why it matters
--------------

A decoding step reads the weights once for all running sequences.
A low limit leaves cache empty and takes more steps than needed.
Log lines that show a low cache usage while requests wait are the sign of it.

When it does not apply
----------------------

Early releases leave this limit to the engine.
The cache is what limits: then a larger memory fraction helps, a larger limit would only preempt.
The limit is that of the largest CUDA graph already, 512 sequences where vLLM chooses by itself: a step of more is launched kernel by kernel, and ``tuner validate`` found it slower.
A step waits for the host that schedules it already, as one of a small model does: more sequences take it as much longer, and ``tuner validate`` found nothing gained.
Each sequence of the limit also costs the sampler a row of the vocabulary, which is counted.

Sources
-------

verl documentation, performance tuning guide, "Rollout Generation Tuning".
verl 0.9.1 lowered the default limit from 1024 to 256.
vLLM, ``v1/core/sched/scheduler.py``, ``config/vllm.py`` (``_set_cudagraph_sizes``).
"""

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.rollout_engine import sequences_per_replica, with_matching_limit
from tuner.rules.wording import cached_sequences, count
from tuner.serving.graphs import largest_graph
from tuner.workload import Phase, Workload

RULE = Rule(
    code="ROL005",
    name="max-sequences",
    summary=N_("the limit on running sequences keeps sequences waiting beside an empty cache"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Raise the limit to what cache and replica can use."""
    workload = case.workload
    proposal = with_matching_limit(workload)
    if proposal == workload or not case.pays(proposal):
        return None
    return Finding(
        rule=RULE,
        message=_("{limit} of a replica's {sequences} may run at once, and the cache holds {held}").format(
            limit=count(workload.generator.max_sequences),
            sequences=counted(sequences_per_replica(workload), "sequence"),
            held=_limit_text(proposal),
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=proposal,
    )


def _limit_text(proposal: Workload) -> str:
    limit = proposal.generator.max_sequences
    sequences = cached_sequences(limit, proposal.batch)
    if limit == largest_graph(proposal.generator):
        return _("at least {sequences}, as many as the engine's largest CUDA graph").format(
            sequences=sequences
        )
    return sequences
