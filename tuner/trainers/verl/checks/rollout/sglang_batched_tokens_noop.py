"""A prefill budget that SGLang is not given

What it checks
--------------
``rollout.max_num_batched_tokens`` other than the default with ``rollout.name=sglang``.

Why it matters
--------------
verl passes the number to vLLM and TensorRT-LLM only.
SGLang's own budget is ``chunked_prefill_size``, which ``engine_kwargs.sglang`` can set where its arguments are handed on.
Where they are not, there is nothing to set instead.

When it does not apply
----------------------
A composed configuration that holds the default value.

Sources
-------
No file of verl 0.4.1 to 0.9.1 below ``workers/rollout/sglang_rollout`` reads the key; 0.9.1 ``async_sglang_server.py:321-345`` lists what is passed.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT, changed
from tuner.trainers.verl.sglang_arguments import copy_hands_on, hands_on_arguments
from tuner.trainers.verl.source import source_of
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG133",
    name="sglang-batched-tokens-noop",
    summary=N_("a prefill budget that SGLang is not given"),
    severity=Severity.WARNING,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
    unread=True,
)

_KEY = f"{ROLLOUT}.max_num_batched_tokens"
_LIVE = f"{ROLLOUT}.engine_kwargs.sglang.chunked_prefill_size"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where SGLang's own budget does not say the same."""
    if workload.generator.engine is not RolloutEngine.SGLANG or not changed(settings, _KEY):
        return
    budget = settings.integer(_KEY, minimum=1)
    if settings.get(_LIVE) == budget:
        return
    name = _LIVE.rpartition(".")[2]
    live = hands_on_arguments(source_of(settings, version)) or copy_hands_on(settings, name)
    yield report(
        RULE,
        settings,
        _("{key}={budget} does nothing: {release} does not pass it to SGLang").format(
            key=_KEY, budget=budget, release=workload.release
        ),
        keys=[_KEY, _LIVE] if live else [_KEY],
        overrides=[assign(settings, _LIVE, budget)] if live else [],
    )
