"""Let the rollout engine give its memory back during training

What it checks
--------------

The rollout engine shares its GPUs with the trainer, keeps its weights and cache while the trainer works, and a training phase is over the limit.

Why it matters
--------------

The engine's pool, often half of the card, is idle from the end of generation to the next one.
Asleep it keeps only CUDA graphs and its context.

When it does not apply
----------------------

Everything fits beside the awake engine: then waking up costs time for nothing.
The engine has GPUs of its own, or a training loop of a copy of the trainer runs, and not the release's: nobody knows when that one puts it to sleep.
The vLLM that verl carries up to 0.4 always gives its weights back, and its cache by a switch that CUDA graphs exclude.
Both are switched together where offloading does not make enough room: generation without graphs takes longer.

Sources
-------

verl 0.9.1, ``workers/rollout/vllm_rollout/vllm_async_server.py`` (sleep and wake-up).
verl 0.4.1, ``workers/rollout/vllm_rollout/vllm_rollout.py:80`` (the assertion) and 291 (``free_cache_engine``).
Releases before late 2025 did not sync weights with sleeping switched off (verl #4248).
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due_proposal
from tuner.rules.rungs import cache_asleep, engine_asleep
from tuner.rules.wording import gib, over

RULE = Rule(
    code="ROL015",
    name="rollout-sleep",
    summary=N_("the rollout engine keeps its memory while the trainer needs it"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Put the engine to sleep where a training phase is short of memory, its cache at the price of graphs."""
    rung = due_proposal(case, engine_asleep) or due_proposal(case, cache_asleep)
    if rung is None:
        return None
    phase, proposal = rung
    graphs_go = case.workload.generator.cuda_graphs and not proposal.generator.cuda_graphs
    return Finding(
        rule=RULE,
        message=_("{shortage}; the idle rollout engine keeps {asleep} of it").format(
            shortage=over(case, phase), asleep=gib(case.rollout.asleep_bytes)
        ),
        severity=case.severity(phase),
        evidence=Evidence.MODELLED,
        phase=phase,
        proposal=proposal,
        notes=(_("the engine's cache goes only without CUDA graphs here"),) if graphs_go else (),
    )
