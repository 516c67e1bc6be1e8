"""Pack sequences instead of padding them

What it checks
--------------

Sequences are padded to a common length, and packing them shortens the step.

Why it matters
--------------

Padded tokens go through every layer and through the output head, only to be masked at the end.
With responses spread evenly up to their maximum, about half of all computed tokens are padding.
Packed sequences lie end to end, and attention is told where each begins.
Packing is also what compiled entropy, dynamic context lengths and Ulysses rest on.

When it does not apply
----------------------

The architecture has no packed attention in transformers.
Nearly all sequences are equally long.

Sources
-------

verl documentation, performance tuning guide, "Enable remove padding (sequence packing)".
verl 0.7.1 and later pack by default; earlier releases do not.
"""

from msgspec.structs import replace

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.rules.case import Case
from tuner.workload import Phase, Workload

RULE = Rule(
    code="SEQ001",
    name="sequence-packing",
    summary="sequences are padded, and padding is computed",
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Pack in every engine that pads."""
    proposal = _packed(case.workload)
    if proposal == case.workload or not case.pays(proposal):
        return None
    batch = case.workload.batch
    return Finding(
        rule=RULE,
        message=f"every sequence is computed as if it had {batch.sequence_tokens:,} tokens, whatever its length",
        severity=RULE.severity,
        evidence=Evidence.HEURISTIC,
        phase=Phase.UPDATE_ACTOR,
        proposal=proposal,
        notes=("Mean lengths are taken as half of the maxima; the gain grows with shorter responses.",),
    )


def _packed(workload: Workload) -> Workload:
    changed = workload.with_actor_engine(packed=True)
    if workload.reference is not None:
        changed = changed.with_reference(engine=replace(workload.reference.engine, packed=True))
    if workload.critic is not None:
        changed = changed.with_critic(engine=replace(workload.critic.engine, packed=True))
    return changed
