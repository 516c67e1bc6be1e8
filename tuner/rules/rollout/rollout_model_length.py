"""Build the rollout engine for the sequences it will see

What it checks
--------------

No limit on the engine's sequence length is set, so it is built for the model's whole context, while prompt and response together are shorter.

Why it matters
--------------

vLLM refuses to start when its cache cannot hold one sequence of this length, even though none will come.
Block tables and position-dependent buffers are sized by it too.
Early releases used prompt plus response by default; later ones use the model's maximum, up to 262,144 tokens.

When it does not apply
----------------------

Several turns are generated into one sequence: then the limit is the budget of all turns.

Sources
-------

verl 0.7.1 and 0.9.1, ``workers/rollout/vllm_rollout/vllm_async_server.py``; verl 0.5.0, ``workers/rollout/vllm_rollout/vllm_rollout_spmd.py``.
vLLM, ``v1/core/kv_cache_utils.py``, ``check_enough_kv_cache_memory``.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.wording import count
from tuner.workload import Phase, RolloutEngine

RULE = Rule(
    code="ROL010",
    name="rollout-model-length",
    summary=N_("the rollout engine is built for longer sequences than the job has"),
    severity=Severity.ADVICE,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Limit the engine to prompt plus response."""
    workload = case.workload
    needed, built = workload.batch.sequence_tokens, workload.model.max_positions
    if workload.generator.max_model_tokens is not None or needed >= built:
        return None
    kv_tokens = case.rollout.kv_tokens
    refused = workload.generator.engine is RolloutEngine.VLLM and 0 < kv_tokens < built
    text = (
        _(
            "the rollout engine is built for the model's {built} tokens, a sequence has at most {needed}; "
            "its cache holds {held}, so it would refuse to start"
        )
        if refused
        else _("the rollout engine is built for the model's {built} tokens, a sequence has at most {needed}")
    )
    return Finding(
        rule=RULE,
        message=text.format(built=count(built), needed=count(needed), held=count(kv_tokens)),
        severity=Severity.ERROR if refused else RULE.severity,
        evidence=Evidence.MODELLED if refused else Evidence.EXACT,
        phase=Phase.ROLLOUT,
        proposal=workload.with_rollout(max_model_tokens=needed),
    )
