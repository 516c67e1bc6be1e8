"""Let idle weights wait on the host

What it checks
--------------

A phase is over the limit while weights of an engine that does not work in it lie on the card, and cheaper changes are not enough.

Why it matters
--------------

Stored weights take four bytes per parameter and shard, in the rollout as well as beside another role's training.
Offloaded, they come to the card for their own passes only.
Each time they leave it, the blocks that PyTorch keeps of earlier passes are given back: the engine, which wakes up beside them for its new weights, has their room.

When it does not apply
----------------------

The phase over the limit is one that needs these very weights: they are loaded for it.
A frozen reference under FSDP is on the host in any case.

Sources
-------

verl 0.9.1, ``workers/engine/base.py`` (``train_mode``, ``eval_mode``), ``workers/engine_workers.py``; ``utils/fsdp_utils.py`` (``offload_fsdp_model_to_cpu`` empties the cache).
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due_proposal
from tuner.rules.rungs import parameters_offloaded
from tuner.rules.wording import over
from tuner.workload import Phase

RULE = Rule(
    code="MEM006",
    name="parameter-offload",
    summary=N_("idle weights take memory that another phase lacks"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Offload weights where they are idle and in the way."""
    rung = due_proposal(case, parameters_offloaded)
    if rung is None:
        return None
    phase, proposal = rung
    text = _("{shortage} while weights that it does not use lie on the card")
    if phase is Phase.UPDATE_WEIGHTS:
        text = _("{shortage} with what the update has freed; to offload weights gives that back as well")
    return Finding(
        rule=RULE,
        message=text.format(shortage=over(case, phase)),
        severity=case.severity(phase),
        evidence=Evidence.MODELLED,
        phase=phase,
        proposal=proposal,
    )
