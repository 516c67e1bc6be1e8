"""Keep layer inputs on the host when nothing smaller fits

What it checks
--------------

A training pass is over the limit with recomputation, with one sequence at a time and with a fused head, and its layer inputs are most of what is left.

Why it matters
--------------

With recomputation a training pass still keeps the input of every layer: two bytes per token, layer and hidden unit.
For long sequences and deep models that is tens of GiB.
Offloaded, two layers' worth stays on the card while the rest travels to the host and back.

When it does not apply
----------------------

A smaller micro-batch fits: it costs less.
The copies outlast the computation: with short micro-batches on a fast card they do.
Only FSDP engines have it.
It leaves a vision tower alone, so that it is no way out of a peak that stays over the limit and of which the tower has more than it would free.

Sources
-------

verl documentation, performance tuning guide, "Batch Size Tuning Tips", fifth tip.
verl 0.9.1, ``utils/activation_offload.py``.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.memory.vision.terms import TOWER_KEEPS
from tuner.rules.case import Case
from tuner.rules.ladder import due_proposal
from tuner.rules.rungs import activations_offloaded
from tuner.rules.wording import over
from tuner.workload import Phase, Workload

RULE = Rule(
    code="MEM004",
    name="activation-offload",
    summary=N_("layer inputs of the smallest micro-batch do not fit"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Offload activations where cheaper changes are not enough."""
    rung = due_proposal(case, activations_offloaded)
    if rung is None:
        return None
    phase, proposal = rung
    if _is_of_tower(case, phase, proposal):
        return None
    return Finding(
        rule=RULE,
        message=_(
            "{shortage}, more than smaller micro-batches can help; layer inputs can wait on the host"
        ).format(shortage=over(case, phase)),
        severity=case.severity(phase),
        evidence=Evidence.MODELLED,
        phase=phase,
        proposal=proposal,
    )


def _is_of_tower(case: Case, phase: Phase, proposal: Workload) -> bool:
    """Whether the phase stays over the limit, and a vision tower has more of it than offloading frees."""
    before = case.phase(phase)
    after = case.with_workload(proposal).phase(phase)
    if before is None or after is None or case.missing_bytes(after) <= 0:
        return False
    at_end = max(before.moments, key=lambda moment: moment.interval[1])
    tower = sum(term.high for term in at_end.terms if term.name in TOWER_KEEPS)
    return tower > before.interval[1] - after.interval[1]
