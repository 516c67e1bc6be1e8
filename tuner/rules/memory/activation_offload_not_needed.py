"""Keep layer inputs on the card where they fit

What it checks
--------------

Activations are offloaded to the host, and keeping them is affordable and faster.

Why it matters
--------------

Each layer's input crosses the host link twice per micro-batch.
Where the copies take longer than the layer, the GPU waits; on every card they hold memory bandwidth and pinned host memory.

When it does not apply
----------------------

The inputs do not fit beside everything else.
Computation is long enough to hide the copies: then there is nothing to gain.

Sources
-------

verl 0.9.1, ``utils/activation_offload.py``.
"""

from msgspec.structs import replace

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.rungs import engine_of, with_engine
from tuner.workload import Phase

RULE = Rule(
    code="MEM005",
    name="activation-offload-not-needed",
    summary=N_("activations are offloaded although they fit"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Keep activations on the card in every training pass that has the room."""
    proposal, phases = case.workload, list[Phase]()
    for phase in (case.workload.actor_update.phase, *([Phase.UPDATE_CRITIC] if case.workload.critic else [])):
        unloaded = replace(engine_of(case.workload, phase), activation_offload=False)
        if case.pays(with_engine(case.workload, phase, unloaded)):
            proposal = with_engine(proposal, phase, unloaded)
            phases.append(phase)
    if not phases:
        return None
    return Finding(
        rule=RULE,
        message=_("{phase} sends its activations to the host and back although they fit on the card").format(
            phase=phases[0].value
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=phases[0],
        proposal=proposal,
    )
