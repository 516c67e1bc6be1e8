"""Gather weights layer by layer for the sync

What it checks
--------------

The weight sync gathers the whole model at once and is over the limit.

Why it matters
--------------

To send adapters, or to merge them, the trainer summons all parameters of the model on every GPU, two bytes each.
Layer by layer it holds one layer at a time.
The documentation asks for it from 70B parameters on, or below 48 GB per card; here it is computed.

When it does not apply
----------------------

The whole model fits: gathering it at once takes fewer collectives.

Sources
-------

verl documentation, LoRA guide, layered summon.
verl 0.9.1, ``utils/fsdp_utils.py`` (``layered_summon_lora_params``).
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due_proposal
from tuner.rules.rungs import synced_by_tensor
from tuner.rules.wording import over

RULE = Rule(
    code="SYN006",
    name="layered-summon",
    summary=N_("the weight sync gathers the whole model and does not fit"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Gather layer by layer."""
    rung = due_proposal(case, synced_by_tensor)
    if rung is None:
        return None
    phase, proposal = rung
    return Finding(
        rule=RULE,
        message=_("{shortage}, because the whole model is gathered at once").format(
            shortage=over(case, phase)
        ),
        severity=case.severity(phase),
        evidence=Evidence.MODELLED,
        phase=phase,
        proposal=proposal,
    )
