"""Let idle optimizer states wait on the host

What it checks
--------------

A forward-only pass, another role's update or the weight sync is over the limit while optimizer states lie on the card, and cheaper changes are not enough.

Why it matters
--------------

AdamW's moments take eight bytes per parameter and shard, and only the optimizer step reads them.
Offloaded, they come to the card at the start of their update and leave at its end.

When it does not apply
----------------------

The phase over the limit is the update itself: the states are on the card from its start, so offloading does not help there.
The wake-up of the rollout engine has a rule of its own.

Sources
-------

verl 0.9.1, ``workers/engine/base.py`` (``train_mode``), ``workers/engine/fsdp/transformer_impl.py``.
verl #5282, #7804.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due, wake_up_without_states
from tuner.rules.rollout_engine import AWAKE
from tuner.rules.rungs import optimizer_offloaded
from tuner.rules.wording import over
from tuner.workload import Phase

RULE = Rule(
    code="MEM007",
    name="optimizer-offload",
    summary=N_("idle optimizer states take memory that another phase lacks"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.EXACT,
)

TRAINING = tuple(phase for phase in Phase if phase not in AWAKE)


def check(case: Case) -> Finding | None:
    """Offload optimizer states where they are idle and in the way."""
    phase = due(case, optimizer_offloaded, among=TRAINING)
    if phase is None or wake_up_without_states(case) is not None:
        return None
    return Finding(
        rule=RULE,
        message=_("{shortage} while optimizer states that it does not use lie on the card").format(
            shortage=over(case, phase)
        ),
        severity=case.severity(phase),
        evidence=Evidence.MODELLED,
        phase=phase,
        proposal=optimizer_offloaded(case.workload, phase),
    )
