"""Do not reserve activations for more tokens than a step needs

What it checks
--------------

The KV cache holds fewer sequences of full length than a replica has, and the limit on the tokens of one step of the rollout engine is beyond the longest sequence that it is built for.
With that length as the limit, 8192 tokens at least, the cache gets the memory, and the step is shorter.

Why it matters
--------------

vLLM's profile run computes a step of as many tokens as may be scheduled, and its activations come out of the memory fraction before the cache does.
Decoding takes one token of a sequence and step: a limit far beyond the longest prompt is never filled then.
At 131,072 tokens and the MLP of a Qwen3-8B that is several GiB, in a cache whose sequences are preempted and computed again.

When it does not apply
----------------------

The cache holds every sequence of a replica.
The limit is the longest sequence already, which vLLM asks for where prompts are not computed in chunks.
Engines other than vLLM have no such run.

Sources
-------

vLLM, ``v1/worker/gpu_model_runner.py``, ``profile_run``; ``v1/worker/gpu_worker.py``, ``determine_available_memory``.
verl documentation, best practices: 8192 or the longest sequence.
"""

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.rollout_engine import pays_if_shorter, sequences_per_replica, starts
from tuner.rules.wording import cached_sequences, count
from tuner.workload import Phase, RolloutEngine

RULE = Rule(
    code="ROL030",
    name="batched-tokens-beyond-cache",
    summary=N_(
        "a step may take more tokens than its longest sequence has, and the KV cache lacks their memory"
    ),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)

LEAST_TOKENS = 8192  # of a step: verl's own default, and its guide's for throughput


def check(case: Case) -> Finding | None:
    """Lower the limit to the longest sequence that the engine is built for."""
    workload, rollout = case.workload, case.workload.generator
    of_replica, running = sequences_per_replica(workload), case.rollout.concurrent_sequences
    if rollout.engine is not RolloutEngine.VLLM or not starts(workload) or running >= of_replica:
        return None
    longest = rollout.max_model_tokens or workload.model.max_positions
    limit = max(LEAST_TOKENS, longest, rollout.max_sequences)
    proposal = workload.with_rollout(max_batched_tokens=limit)
    if limit >= rollout.max_batched_tokens or not case.pays(proposal):
        return None
    if not pays_if_shorter(case, proposal):
        return None
    return Finding(
        rule=RULE,
        message=_(
            "a step of the rollout engine may take {tokens} tokens; the KV cache holds {held} of a replica's "
            "{sequences}, and {more} with steps of {limit} tokens"
        ).format(
            tokens=count(rollout.max_batched_tokens),
            held=cached_sequences(running, workload.batch),
            sequences=counted(of_replica, "sequence"),
            limit=count(limit),
            more=count(case.with_workload(proposal).rollout.concurrent_sequences),
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=proposal,
    )
