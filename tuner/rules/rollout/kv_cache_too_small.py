"""Give the rollout engine enough memory to start

What it checks
--------------

The memory fraction does not hold the engine's weights, the activations of its profile run and the cache of one sequence of full length.
The proposal is the smallest fraction that runs as many sequences as any that fits.

Why it matters
--------------

The engine refuses to start: "No available memory for the cache blocks", or "max seq len is larger than the maximum number of tokens that can be stored in KV cache".

It is an error where the engine starts at no size that is possible, and a warning where it may: contexts and communicators are smaller on some systems, and vLLM 0.8 and 0.9.0 have an older core that takes less.
Which core runs only a launch script can tell: ``VLLM_USE_V1=0`` picks the older one, and so does ``VLLM_ATTENTION_BACKEND=XFORMERS``, which many scripts of that time export.

When it does not apply
----------------------

No fraction is large enough, or none that fits beside the trainer: then the replica needs more GPUs.

Sources
-------

vLLM, ``v1/core/kv_cache_utils.py``, ``check_enough_kv_cache_memory``.
vLLM 0.8.3, ``engine/arg_utils.py``, ``_is_v1_supported_oracle``.
verl documentation, best practices, "memory x fraction x tensor-parallel size must exceed the weights".
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.memory.rollout.capacity import start_doubt
from tuner.rules.case import Case
from tuner.rules.rollout_engine import hundredths, least_fraction, starts, with_more_cache
from tuner.rules.wording import gib
from tuner.workload import Phase

RULE = Rule(
    code="ROL004",
    name="kv-cache-too-small",
    summary=N_("the rollout engine cannot start: no room for weights and one sequence"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Raise the memory fraction until the engine starts."""
    workload = case.workload
    if starts(workload):
        return None
    proposal = with_more_cache(case, workload, than=workload) or least_fraction(workload)
    if proposal is None or hundredths(proposal) <= hundredths(workload) or not case.affords(proposal):
        return None
    doubt = start_doubt(workload)
    needed = case.rollout.weight_bytes + case.rollout.activation_bytes
    return Finding(
        rule=RULE,
        message=_(
            "weights and activations of the rollout engine take {needed} per GPU; a fraction of "
            "{fraction:.2f} leaves no cache for one sequence of {sequence_tokens:,} "
            "tokens, {enough:.2f} does"
        ).format(
            needed=gib(needed),
            fraction=workload.generator.memory_fraction,
            sequence_tokens=workload.batch.reached_tokens,
            enough=proposal.generator.memory_fraction,
        ),
        severity=Severity.WARNING if doubt else RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=proposal,
        notes=() if doubt is None else (doubt,),
    )
