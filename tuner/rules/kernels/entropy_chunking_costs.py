"""Do not chunk an entropy that is compiled

What it checks
--------------

The entropy is compiled and computed in chunks, in a pass where one compiled kernel needs no more memory and no more time.

Why it matters
--------------

Compiled and whole, the entropy needs nothing beyond the logits in a forward pass, and two bytes per logit in training.
In chunks, training keeps every chunk's float32 gradient until all are joined: four bytes more per logit.
The loop also compiles anew for each number of chunks and, after eight, falls back to eager code without a word.
Measured for a 0.5B model and 16,384 tokens: 29.1 GiB with chunks, 20.4 without.

When it does not apply
----------------------

The entropy is eager because the compiler fails: chunks then help the forward pass.
The published advice to chunk dates from a time when the entropy was eager.

Sources
-------

verl 0.9.1, ``workers/engine/fsdp/transformer_impl.py``, ``utils/torch_functional.py``.
Peaks measured on two H200 with verl 0.9.1 and torch 2.11.0, 2026-11-20.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.rungs import with_head
from tuner.workload import Backend, HeadKind, Phase

RULE = Rule(
    code="KRN004",
    name="entropy-chunking-costs",
    summary=N_("a compiled entropy is computed in chunks, which costs memory and time"),
    severity=Severity.ADVICE,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Compute a compiled entropy whole."""
    actor = case.workload.actor
    head, engine = actor.head, actor.engine
    if head.kind is not HeadKind.LOGITS or head.chunk_tokens is None or not head.compiled:
        return None
    if engine.backend is Backend.MEGATRON or not engine.packed:
        return None
    phase = case.workload.actor_update.phase if actor.update.entropy else Phase.OLD_LOG_PROB
    if phase is Phase.OLD_LOG_PROB and (actor.log_prob is None or not actor.log_prob.entropy):
        return None
    proposal = with_head(case.workload, chunk_tokens=None)
    before, after = case.peak_bytes(phase), case.with_workload(proposal).peak_bytes(phase)
    if after > before or case.slower(proposal):
        return None
    return Finding(
        rule=RULE,
        message=_(
            "the compiled entropy runs in chunks of {chunk_tokens:,} tokens, a loop that "
            "compiles anew for each length and then runs eagerly; whole it needs no more memory"
        ).format(chunk_tokens=head.chunk_tokens),
        severity=RULE.severity,
        evidence=Evidence.MEASURED,
        phase=phase,
        proposal=proposal,
    )
