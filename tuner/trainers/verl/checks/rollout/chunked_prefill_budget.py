"""A prefill budget below the engine's length

What it checks
--------------
``rollout.max_num_batched_tokens`` below the length that the engine is built for, with ``rollout.enable_chunked_prefill`` on, in a release that refuses it.
The override raises the budget to that length.

Why it matters
--------------
The purpose of chunked prefill is that the budget may be smaller than a sequence, but up to 0.6.1 the synchronous vLLM rollout raises ``ValueError`` unless it is not.

When it does not apply
----------------------
``rollout.mode=async``, SGLang, and 0.7.0 and later.
A copy of verl whose code never reads the budget, as those from before 0.2: the engine then takes its own.

Sources
-------
verl 0.4.1 ``workers/rollout/vllm_rollout/vllm_rollout_spmd.py:126-131``, 0.5.0 lines 138-143, 0.6.1 lines 195-200.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG130",
    name="chunked-prefill-budget",
    summary=N_("a prefill budget below the engine's length, which this release refuses"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.REORDERED,
    refuses=True,
)

_RAISES = Releases(until="0.7.0")

GUARDS = (
    CodeGuard(
        words="max_num_batched_tokens max_model_len enable_chunked_prefill",
        held="enable_chunked_prefill",  # copies raise as vLLM itself does, where it is off
        releases=_RAISES,
    ),
)
_CHUNKED = f"{ROLLOUT}.enable_chunked_prefill"
_KEY = f"{ROLLOUT}.max_num_batched_tokens"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for a synchronous vLLM with a budget that is too small."""
    rollout = workload.generator
    if version not in _RAISES or rollout.engine is not RolloutEngine.VLLM:
        return
    if not _is_read(settings):
        return
    if not settings.flag(_CHUNKED, default=True):  # vLLM may chunk all the same, which verl does not ask
        return
    length = settings.integer(f"{ROLLOUT}.max_model_len", minimum=1) or workload.batch.sequence_tokens
    budget = settings.integer(_KEY, default=8192, minimum=1)
    if budget >= length or settings.text(f"{ROLLOUT}.mode", default="sync") != "sync":
        return
    yield report(
        RULE,
        settings,
        _(
            "{key}={budget} is below the engine's length of {length} tokens: {release} raises "
            "ValueError with chunked prefill on"
        ).format(key=_KEY, budget=budget, length=length, release=workload.release),
        keys=[_KEY],
        overrides=[assign(settings, _KEY, length)],
    )


def _is_read(settings: Settings) -> bool:
    """Whether a copy of verl that would run, if there is one, hands the budget to the engine."""
    has = settings.has_statement
    return has is None or has("max_num_batched_tokens", "vllm_rollout")
