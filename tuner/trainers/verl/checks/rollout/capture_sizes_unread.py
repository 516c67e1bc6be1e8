"""Sizes to capture without CUDA graphs

What it checks
--------------
``rollout.cudagraph_capture_sizes`` together with ``rollout.enforce_eager=True``.
The override captures them.

Why it matters
--------------
An eager engine captures nothing, so that the list does nothing.

When it does not apply
----------------------
Without a list.

Sources
-------
verl 0.6.1 ``workers/rollout/vllm_rollout/vllm_rollout_spmd.py:218-229``, 0.9.1 ``workers/rollout/vllm_rollout/vllm_async_server.py:321``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ROLLOUT
from tuner.workload import RolloutEngine, Workload

RULE = Rule(
    code="CFG161",
    name="capture-sizes-unread",
    summary=N_("sizes to capture without CUDA graphs"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)

_SIZES, _EAGER = f"{ROLLOUT}.cudagraph_capture_sizes", f"{ROLLOUT}.enforce_eager"
_CAPTURES = (RolloutEngine.VLLM, RolloutEngine.TENSORRT_LLM)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for a list that nothing reads."""
    rollout = workload.generator
    if rollout.engine not in _CAPTURES or rollout.cuda_graphs or not settings.get(_SIZES):
        return
    yield report(
        RULE,
        settings,
        _("{sizes} does nothing with {eager}=True: {release} captures no CUDA graphs then").format(
            sizes=_SIZES, eager=_EAGER, release=workload.release
        ),
        keys=[_SIZES, _EAGER],
        overrides=[assign(settings, _EAGER, False)],
    )
