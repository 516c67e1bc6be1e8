"""Capture CUDA graphs for small batches only when memory is short

What it checks
--------------

A phase is over the limit by less than what a short list of captured batch sizes gives back.

Why it matters
--------------

Graphs live outside the engine's memory fraction and stay allocated while the trainer works.
The default list has some seventy sizes up to 512 sequences.
The long tail of a rollout, when few sequences are left, profits most from graphs, and small sizes cover it.

When it does not apply
----------------------

More is missing than this gives back: then other rules speak.
Without graphs a list of sizes has no effect.

Sources
-------

verl documentation, performance tuning guide, "CUDA graph capture sizes"; best practices.
verl 0.9.1, ``workers/rollout/vllm_rollout/vllm_async_server.py``.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.rules._ladder import TRIMMED_CAPTURE_SIZES, fewer_graphs
from tuner.rules._wording import gib, over
from tuner.rules.case import Case

RULE = Rule(
    code="ROL012",
    name="capture-sizes",
    summary="memory is short by less than what fewer captured batch sizes give back",
    severity=Severity.ADVICE,
    goal=Goal.MEMORY,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Capture few sizes where that alone makes everything fit."""
    worst = case.short()
    if worst is None:
        return None
    proposal = fewer_graphs(case.workload, worst.phase)
    if proposal == case.workload or not case.fits(proposal):
        return None
    return Finding(
        rule=RULE,
        message=f"{over(case, worst.phase)}; graphs of all batch sizes take"
        f" {gib(case.rollout.graph_bytes)}, sizes up to {TRIMMED_CAPTURE_SIZES[-1]} are enough for the tail",
        severity=case.severity(worst.phase),
        evidence=Evidence.HEURISTIC,
        phase=worst.phase,
        proposal=proposal,
    )
