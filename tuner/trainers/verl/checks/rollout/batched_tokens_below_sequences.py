"""Fewer tokens per engine step than sequences

What it checks
--------------
``rollout.max_num_batched_tokens`` below the number of sequences that vLLM may run at once.
The override raises it to that number, or to 2048 tokens where that is more.

Why it matters
--------------
Each running sequence takes at least one token of a step, so vLLM refuses the pair when it is built: ``max_num_batched_tokens must be greater than or equal to max_num_seqs``.
The number of sequences is ``rollout.max_num_seqs``, whose default was 1024 before 0.9.1; a release without this key leaves it to vLLM, which then takes 256 or 1024.
The pair is often met with short test runs that set the budget to prompt plus response.

When it does not apply
----------------------
Other rollout engines.
vLLM 0.11.1 and later where nobody sets the sequences: it then lowers them by itself.

Sources
-------
vLLM ``config.py`` up to 0.10, since then ``config/scheduler.py`` (``SchedulerConfig._verify_args``, later ``verify_max_model_len``).
vLLM 0.11.1 ``engine/arg_utils.py`` (``_set_default_max_num_seqs_and_batched_tokens_args``).
verl 0.6.1 ``workers/rollout/vllm_rollout/vllm_rollout_spmd.py:242-245``, 0.9.1 ``workers/rollout/vllm_rollout/vllm_async_server.py:332-333``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.serving import vllm
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG144",
    name="batched-tokens-below-sequences",
    summary=N_("a step of vLLM may take fewer tokens than sequences run, which vLLM refuses"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

REFUSED_BY = RefusedBy.ENGINE

_TOKENS = f"{ROLLOUT}.max_num_batched_tokens"
_SEQUENCES = f"{ROLLOUT}.max_num_seqs"
_LEAST = 2048  # tokens; vLLM's own default, see the rule max-batched-tokens


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for a vLLM that is given fewer tokens than sequences."""
    rollout = workload.generator
    tokens, sequences = rollout.max_batched_tokens, rollout.max_sequences
    if rollout.engine is not RolloutEngine.VLLM or tokens >= sequences:
        return
    if not rollout.sequences_adjustable and vllm.lowers_sequences(rollout.engine_version):
        return  # lowers its own number of sequences
    whose = (
        f"{_SEQUENCES}={sequences}"
        if rollout.sequences_adjustable
        else _("vLLM's own {sequences} sequences").format(sequences=sequences)
    )
    yield report(
        RULE,
        settings,
        _("{key}={tokens} is below {whose}: vLLM {engine_version} under {release} refuses to start").format(
            key=_TOKENS,
            tokens=tokens,
            whose=whose,
            engine_version=rollout.engine_version,
            release=workload.release,
        ),
        keys=[_TOKENS, *([_SEQUENCES] if rollout.sequences_adjustable else [])],
        overrides=[assign(settings, _TOKENS, max(sequences, _LEAST))],
    )
