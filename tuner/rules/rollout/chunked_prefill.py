"""Let the engine compute long prompts in chunks

What it checks
--------------

Chunked prefill is switched off.

Why it matters
--------------

With chunks, prompts and running sequences share an engine step, and a long prompt does not hold up the others.
Without them a whole sequence must fit into one step, and the engine refuses a limit on its tokens that is smaller than the longest sequence.
verl 0.9.1 raises the limit to that length, whose activations come out of the cache; earlier releases that hand both on end there.

When it does not apply
----------------------

Some models and attention back ends cannot chunk; the engine says so when it starts.
vLLM 0.8.0 to 0.11.0 chunks whatever it is asked, unless ``VLLM_USE_V1=0`` picks its older core, which no configuration tells.
The servers that verl 0.6.0 to 0.9.0 start are not told when the switch is off, and chunk.

Sources
-------

verl documentation, best practices, chunked prefill.
vLLM, ``config/scheduler.py`` (``max_num_batched_tokens`` against ``max_model_len``) and optimization guide; 0.8.5 to 0.11.1 ``engine/arg_utils.py`` (``_set_default_args``).
verl 0.7.1 and 0.9.1 ``workers/rollout/vllm_rollout/utils.py`` (``build_cli_args_from_config``).
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.wording import count
from tuner.workload import Phase, RolloutEngine

RULE = Rule(
    code="ROL013",
    name="chunked-prefill",
    summary=N_("prompts are not computed in chunks"),
    severity=Severity.ADVICE,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)


def check(case: Case) -> Finding | None:
    """Chunk prompts, above all where the engine would refuse to start."""
    rollout = case.workload.generator
    if rollout.chunked_prefill or rollout.engine is not RolloutEngine.VLLM:
        return None
    longest = case.rollout.model_tokens
    refused = rollout.step_tokens < longest
    text = (
        _(
            "prompts are not computed in chunks: a step takes {tokens} tokens, the longest sequence is "
            "{longest}; the engine refuses this"
        )
        if refused
        else _(
            "prompts are not computed in chunks: a step takes {tokens} tokens, the longest sequence is "
            "{longest}; long prompts hold up the running sequences"
        )
    )
    return Finding(
        rule=RULE,
        message=text.format(tokens=count(rollout.step_tokens), longest=count(longest)),
        severity=Severity.ERROR if refused else RULE.severity,
        evidence=Evidence.EXACT,
        phase=Phase.ROLLOUT,
        proposal=case.workload.with_rollout(chunked_prefill=True),
    )
