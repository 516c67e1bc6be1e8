"""Keep gathered weights until the backward pass where they fit

What it checks
--------------

Weights are dropped after the forward pass of each layer, and keeping them (ZeRO-2 instead of ZeRO-3) is affordable and faster.

Why it matters
--------------

Kept weights are gathered once per micro-batch instead of twice.
They cost two bytes per parameter on every GPU, whatever the number of GPUs: nothing for a small model, everything for a large one.

When it does not apply
----------------------

The model is large, or there is one GPU per model copy.
Gathering hides behind computation, as it does with large micro-batches on fast links.
The usual guide calls the opposite value ZeRO-2; the value that keeps the weights is the one proposed here.

Sources
-------

Rajbhandari et al., "ZeRO" (arXiv:1910.02054), section 7.
torch, ``fully_shard`` (``reshard_after_forward``).
verl #6410 (FSDP1).
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.wording import gib
from tuner.workload import Backend

RULE = Rule(
    code="SYN002",
    name="gathered-weights",
    summary=N_("weights are gathered twice per micro-batch although they fit in between"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)


def check(case: Case) -> Finding | None:
    """Keep gathered weights where there is room."""
    workload, engine = case.workload, case.workload.actor.engine
    if engine.backend is Backend.MEGATRON or engine.parallel.shard < 2 or engine.streamed_offload:
        return None
    proposal = workload.with_actor_engine(reshard_after_forward=False)
    if not engine.reshard_after_forward or not case.pays(proposal):
        return None
    whole = workload.model.parameters * engine.compute_dtype.bytes
    return Finding(
        rule=RULE,
        message=_("every micro-batch gathers all weights twice; {whole} per GPU keep them in between").format(
            whole=gib(whole)
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=case.workload.actor_update.phase,
        proposal=proposal,
    )
