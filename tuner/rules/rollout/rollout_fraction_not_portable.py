"""Set the memory fraction for the engine that runs, not for another

What it checks
--------------

Rollout or wake-up is over the limit with what this engine makes of the memory fraction, and would be under it with what vLLM makes of the same number.
The proposal is the largest fraction that fits this engine.

Why it matters
--------------

vLLM takes a share of the whole card and keeps weights, activations and cache within it.
SGLang takes a share of what is free at its start, for weights and cache alone; activations and CUDA graphs come on top.
TensorRT-LLM takes a share of what is free after its weights, for the cache alone.
A number that was found with one engine can run out of memory, or leave the card half empty, with another.

When it does not apply
----------------------

The engine is vLLM from 0.7 on.
Earlier ones took a share of what was free.

Sources
-------

SGLang, ``model_executor/model_runner.py``, ``profile_max_num_token``.
TensorRT-LLM, ``KvCacheConfig.free_gpu_memory_fraction``.
verl 0.9.1, ``workers/rollout/sglang_rollout/async_sglang_server.py``, ``workers/rollout/trtllm_rollout/trtllm_async_server.py``.
verl documentation, performance tuning guide, note on definitions of the fraction.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.memory.rollout.share import FRACTION_MEANS
from tuner.rules.case import Case
from tuner.rules.ladder import due
from tuner.rules.rollout_engine import hundredths, largest_fraction, misread
from tuner.rules.rungs import least_cache
from tuner.rules.wording import over

RULE = Rule(
    code="ROL003",
    name="rollout-fraction-not-portable",
    summary=N_("the memory fraction would fit with vLLM's meaning, not with this engine's"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Lower a fraction that was meant for another engine."""
    rollout = case.workload.generator
    phase = due(case, least_cache)
    proposal = None if phase is None else largest_fraction(case)
    if phase is None or proposal is None or not misread(case):
        return None
    return Finding(
        rule=RULE,
        message=_("{shortage}; {engine} takes {fraction:.2f} as {means}").format(
            shortage=over(case, phase),
            engine=rollout.engine.value,
            fraction=hundredths(case.workload) / 100,
            means=_(FRACTION_MEANS[rollout.fraction_of]),
        ),
        severity=case.severity(phase),
        evidence=Evidence.MODELLED,
        phase=phase,
        proposal=proposal,
    )
