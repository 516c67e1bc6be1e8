"""Let the engine compute long prompts in chunks

What it checks
--------------

Chunked prefill is switched off.
Where a step then takes fewer tokens than the longest sequence has, the proposal raises that limit as well as it switches chunks on: some releases refuse so small a limit with chunks, too.

Why it matters
--------------

With chunks, prompts and running sequences share an engine step, and a long prompt does not hold up the others.
Without them a whole sequence must fit into one step, and the engine refuses a limit on its tokens that is smaller than the longest sequence.
verl 0.9.1 raises the limit to that length, whose activations come out of the cache; earlier releases that hand both on end there.

When it does not apply
----------------------

Some models and attention back ends cannot chunk; the engine says so when it starts.
vLLM 0.8.0 to 0.11.0 chunks whatever it is asked, unless ``VLLM_USE_V1=0`` picks its older core, which only a launch script can tell.
Where only the newest version is known that may run, and older ones that chunk are allowed as well, a limit that is too small is a warning and no refusal.
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

_HOLDS_UP = N_(
    "prompts are not computed in chunks: a step takes {tokens} tokens, the longest sequence is {longest}; "
    "long prompts hold up the running sequences"
)
_REFUSES = N_(
    "prompts are not computed in chunks: a step takes {tokens} tokens, the longest sequence is {longest}; "
    "the engine refuses this"
)
_MAY_REFUSE = N_(
    "chunks are switched off, a step takes {tokens} tokens and the longest sequence is {longest}: vLLM "
    "{version}, which is assumed, refuses this; 0.8.0 to 0.11.0 compute in chunks whatever they are asked"
)


def check(case: Case) -> Finding | None:
    """Chunk prompts; where the engine would refuse to start, let a step take the longest one whole as well."""
    rollout = case.workload.generator
    if rollout.chunked_prefill or rollout.engine is not RolloutEngine.VLLM:
        return None
    longest = case.rollout.model_tokens
    severity, text, proposal = RULE.severity, _HOLDS_UP, case.workload.with_rollout(chunked_prefill=True)
    if rollout.step_tokens < longest:
        severity, text = (Severity.WARNING, _MAY_REFUSE) if rollout.may_chunk else (Severity.ERROR, _REFUSES)
        # with chunks as well the trainer itself may refuse so few tokens
        proposal = case.workload.with_rollout(chunked_prefill=True, max_batched_tokens=longest)
    tokens, version = count(rollout.step_tokens), rollout.engine_version
    return Finding(
        rule=RULE,
        message=_(text).format(tokens=tokens, longest=count(longest), version=version),
        severity=severity,
        evidence=Evidence.EXACT,
        phase=Phase.ROLLOUT,
        proposal=proposal,
    )
