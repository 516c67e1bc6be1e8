"""Do not expect optimizer offload to help the update

What it checks
--------------

Optimizer states are offloaded between phases, the actor's update is over the limit, and its peak holds those states.

Why it matters
--------------

The states are loaded when the update begins, before the first micro-batch, and leave when it ends.
So the update has the same peak with and without offloading; what it lowers is the rollout and the other passes.
What helps the update is sharding over more GPUs, a CPU offload policy that keeps the states on the host (FSDP2), or a host optimizer (Megatron).

When it does not apply
----------------------

The update fits.
Smaller micro-batches, recomputation or a fused head would make it fit: those rules speak then.

Sources
-------

verl 0.9.1, ``workers/engine/base.py`` (``train_mode`` loads the optimizer at entry).
verl #5282 (request to load it around the optimizer step only), #7804.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.memory import Item
from tuner.rules.case import Case
from tuner.rules.ladder import LADDERS
from tuner.rules.wording import gib, over
from tuner.workload import Phase, Workload

RULE = Rule(
    code="MEM010",
    name="optimizer-offload-not-peak",
    summary=N_("optimizer offload is set and the update, which it does not help, is over the limit"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Say what optimizer offload does not do, where no rung of the update is left."""
    phase, engine = case.workload.actor_update.phase, case.workload.actor.engine
    short = case.short(phase)
    if short is None or not engine.optimizer_offload or _cured(case, phase):
        return None
    states = short.bytes_of(Item.OPTIMIZER)
    if states == 0:
        return None
    return Finding(
        rule=RULE,
        message=_(
            "{shortage}, {states} of it optimizer states: they are loaded for the whole update, so "
            "offloading them between phases does not lower its peak"
        ).format(shortage=over(case, phase), states=gib(states)),
        severity=case.severity(phase),
        evidence=Evidence.MODELLED,
        phase=phase,
        notes=(_("More GPUs to shard over, or FSDP2 with its CPU offload policy, would."),),
    )


def _cured(case: Case, phase: Phase) -> bool:
    eased: Workload = case.workload
    ladder = next(ladder for ladder in LADDERS if phase in ladder.phases)
    for rung in ladder.rungs:
        eased = rung(eased, phase)
    return case.eases(eased, phase)
