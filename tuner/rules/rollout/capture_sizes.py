"""Capture CUDA graphs only for as many sequences as run at once when memory is short

What it checks
--------------

A phase is over the limit by less than what the graphs of batch sizes that never run give back.

Why it matters
--------------

Graphs live outside the engine's memory fraction and stay allocated while the trainer works.
vLLM captures some fifty sizes, up to twice the limit on running sequences and at most 512.
A decoding step takes the graph of the next larger size, so sizes beyond the sequences that run at once are never replayed while all of them decode.

When it does not apply
----------------------

As many sequences run as the largest size has: with a shorter list the host would launch every kernel of their steps, which costs far more than the memory is worth.
The published guide's list, which ends at 32, does that to every job that runs more.
More is missing than this gives back: then other rules speak.
Without graphs a list of sizes has no effect.

Sources
-------

verl documentation, performance tuning guide, "CUDA graph capture sizes"; best practices.
vLLM 0.13.0 and 0.24.0, ``config/compilation.py``.
verl 0.9.1, ``workers/rollout/vllm_rollout/vllm_async_server.py``.
"""

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, ngettext
from tuner.rules.case import Case
from tuner.rules.rungs import fewer_graphs
from tuner.rules.wording import gib, over
from tuner.serving.graphs import capture_sizes

RULE = Rule(
    code="ROL012",
    name="capture-sizes",
    summary=N_("memory is short by less than what graphs of batch sizes that never run take"),
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
    sizes = capture_sizes(proposal.generator)
    return Finding(
        rule=RULE,
        message=ngettext(
            "{shortage}; graphs of all batch sizes take {graphs}, and no more than {sequences} runs at once",
            "{shortage}; graphs of all batch sizes take {graphs}, and no more than {sequences} run at once",
            sizes[-1],
        ).format(
            shortage=over(case, worst.phase),
            graphs=gib(case.rollout.graph_bytes),
            sequences=counted(sizes[-1], "sequence"),
        ),
        severity=case.severity(worst.phase),
        evidence=Evidence.HEURISTIC,
        phase=worst.phase,
        proposal=proposal,
    )
