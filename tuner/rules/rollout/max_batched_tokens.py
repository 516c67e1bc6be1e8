"""Compute prompts in chunks of more than 2048 tokens

What it checks
--------------

One step of the rollout engine may take 2048 tokens or fewer, and a larger limit is affordable and faster.

Why it matters
--------------

Prompts are computed in chunks of this size, one chunk per engine step.
Small chunks pay the engine's time between steps more often, and do not fill the GPU.
The chunk's activations come out of the engine's memory fraction, so the cache shrinks a little; that is counted.

When it does not apply
----------------------

Prompts are few and short, or prefix caching already leaves little to compute.
SGLang does not get this limit from the trainer.

Sources
-------

verl documentation, performance tuning guide: "more than 2048 for higher throughput"; best practices: 8192 or the longest sequence.
vLLM, optimization guide, "Chunked Prefill".
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.wording import count
from tuner.workload import Phase, RolloutEngine, Workload

RULE = Rule(
    code="ROL007",
    name="max-batched-tokens",
    summary=N_("the rollout engine computes prompts in chunks of 2048 tokens or fewer"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)

FLOOR = 2048
CANDIDATES = (4096, 8192, 16384)


def check(case: Case) -> Finding | None:
    """Raise the limit to the candidate that makes the shortest step."""
    workload, rollout = case.workload, case.workload.generator
    if rollout.max_batched_tokens > FLOOR or rollout.engine is RolloutEngine.SGLANG:
        return None
    candidates = [tokens for tokens in CANDIDATES if tokens >= rollout.max_sequences]  # or vLLM refuses them
    paying = [tokens for tokens in candidates if case.pays(_chunked(workload, tokens))]
    if not paying:
        return None
    best = min(paying, key=lambda tokens: case.seconds(_chunked(workload, tokens)))
    return Finding(
        rule=RULE,
        message=_(
            "a step of the rollout engine takes at most {tokens} tokens of prompts; {affordable} are affordable"
        ).format(tokens=count(rollout.max_batched_tokens), affordable=count(best)),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=_chunked(workload, best),
    )


def _chunked(workload: Workload, tokens: int) -> Workload:
    return workload.with_rollout(max_batched_tokens=tokens)
