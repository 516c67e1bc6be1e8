"""Drop gathered weights after the forward pass when memory is short

What it checks
--------------

A training pass is over the limit and keeps all gathered weights between forward and backward pass.

Why it matters
--------------

Kept weights take two bytes per parameter on every GPU, not divided by anything.
Dropped and gathered again (ZeRO-3 instead of ZeRO-2) they cost one all-gather per layer, which mostly hides behind computation.

When it does not apply
----------------------

The pass fits with them.

Sources
-------

torch, ``fully_shard`` (``reshard_after_forward``).
verl 0.9.1, ``workers/engine/fsdp/transformer_impl.py``.
verl's Ascend guide recommends the opposite value for ZeRO-2 by mistake.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due_proposal
from tuner.rules.rungs import engine_of, resharded
from tuner.rules.wording import gib, over

RULE = Rule(
    code="SYN003",
    name="reshard-after-forward",
    summary=N_("gathered weights are kept while memory is short"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Reshard after the forward pass."""
    rung = due_proposal(case, resharded)
    if rung is None:
        return None
    phase, proposal = rung
    whole = case.workload.model.parameters * engine_of(case.workload, phase).compute_dtype.bytes
    return Finding(
        rule=RULE,
        message=_(
            "{shortage}, {whole} of it weights that are kept from the forward to the backward pass"
        ).format(shortage=over(case, phase), whole=gib(whole)),
        severity=case.severity(phase),
        evidence=Evidence.EXACT,
        phase=phase,
        proposal=proposal,
    )
