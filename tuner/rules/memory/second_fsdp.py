"""Shard with FSDP2 where FSDP1 leaves too little

What it checks
--------------

A phase is over the limit under FSDP1, and what FSDP1 keeps beside its shards is what is missing.
The proposal is FSDP2 for the actor with its reference, or for the critic.

Why it matters
--------------

FSDP1 holds embedding and output projection in one unit with what no layer has, gathers that unit as a whole, and sends new weights from it in float32.
FSDP2 shards each tensor by itself: an untied projection is a unit of its own, and weights are gathered one by one to be sent.
The step takes as long.

When it does not apply
----------------------

Nothing is over the limit, or offloading and smaller sizes are enough: another engine is the larger change.
LoRA, whose adapters verl collects with calls of FSDP1.
A fused output head, where the projection would become a unit of its own: it reads the projection as it stands.
In verl 0.9.0 FSDP2 keeps gradients of all parameters in float32 between micro-batches, and takes more.
A run cannot be resumed from a checkpoint that was saved under FSDP1: the optimizer's states are those of flat parameters there.

Sources
-------

verl documentation, performance tuning guide, "Migrating to FSDP2".
verl 0.9.1, ``workers/engine/fsdp/transformer_impl.py`` (``strategy``), ``utils/fsdp_utils.py`` (``apply_fsdp2``), ``utils/checkpoint/fsdp_checkpoint_manager.py``.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due_proposal
from tuner.rules.second_fsdp import sharded_by_second
from tuner.rules.wording import over

RULE = Rule(
    code="MEM016",
    name="second-fsdp",
    summary=N_("FSDP1 takes more than FSDP2 where memory is missing"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Shard with FSDP2 where that is what a phase needs."""
    rung = due_proposal(case, sharded_by_second)
    if rung is None:
        return None
    phase, proposal = rung
    return Finding(
        rule=RULE,
        message=_("{shortage} under FSDP1, which gathers more at a time than FSDP2").format(
            shortage=over(case, phase)
        ),
        severity=case.severity(phase),
        evidence=Evidence.MODELLED,
        phase=phase,
        proposal=proposal,
        notes=(_("A run that has saved checkpoints under FSDP1 cannot be resumed from them"),),
    )
