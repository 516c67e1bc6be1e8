"""Leave the trainer its memory when the rollout engine wakes up

What it checks
--------------

Rollout or wake-up is over the limit, and a smaller memory fraction brings both under it.
The proposal is the largest fraction that does.

Why it matters
--------------

At the wake-up the engine maps its whole pool again while the trainer's weights and optimizer states are still resident.
Pool, states, CUDA graphs and both processes' contexts have to fit together; this is where most colocated jobs run out of memory.
The first step can pass all the same, because AdamW allocates its moments only in the first optimizer step.

When it does not apply
----------------------

No fraction leaves room for a cache: then states have to leave the card, or the replica needs more GPUs.
The cache is what the rollout waits for, and optimizer states that wait on the host make the same room in less time: see the rule on the second step.
The fraction is not the share of the whole card: see the rule on fractions of other engines.

Sources
-------

verl 0.9.1, ``workers/engine_workers.py`` (order of wake-up and offload).
vLLM, ``v1/worker/gpu_worker.py``, ``determine_available_memory``.
verl #302, #729, #6912.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due, wake_up_without_states
from tuner.rules.rollout_engine import AWAKE, largest_fraction, least_fraction, misread
from tuner.rules.rungs import fewer_graphs, least_cache
from tuner.rules.wording import gib, over
from tuner.workload import Phase, Workload

RULE = Rule(
    code="ROL002",
    name="rollout-fraction-too-large",
    summary=N_("rollout or wake-up does not fit and a smaller memory fraction does"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Lower the memory fraction to the largest that fits."""
    workload = case.workload
    phase = due(case, least_cache)
    proposal = None if phase is None or misread(case) else _lowered(case)
    if phase is None or proposal is None or wake_up_without_states(case) is not None:
        return None
    return Finding(
        rule=RULE,
        message=_(
            "{shortage}; with a memory fraction of {fitting:.2f} instead of {fraction:.2f} it needs {peak}"
        ).format(
            shortage=over(case, phase),
            fitting=proposal.generator.memory_fraction,
            fraction=workload.generator.memory_fraction,
            peak=gib(case.with_workload(proposal).peak_bytes(phase)),
        ),
        severity=case.severity(phase),
        evidence=Evidence.MODELLED,
        phase=phase,
        proposal=proposal,
        notes=_second_step(case),
    )


def _lowered(case: Case) -> Workload | None:
    """The largest fraction that fits, or the smallest that starts if fewer CUDA graphs make that fit."""
    fitting, least = largest_fraction(case), least_fraction(case.workload)
    if fitting is not None or least is None:
        return fitting
    return least if case.eases(fewer_graphs(least, Phase.WAKE_UP), *AWAKE) else None


def _second_step(case: Case) -> tuple[str, ...]:
    without = case.workload.with_actor_engine(optimizer_offload=True)
    if without == case.workload or not case.eases(without, *AWAKE):
        return ()
    return (
        _(
            "The first step can pass, since optimizer states appear after it; with them on the "
            "host this fraction fits."
        ),
    )
