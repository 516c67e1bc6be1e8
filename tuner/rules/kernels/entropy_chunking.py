"""Compute a vocabulary-parallel entropy in chunks

What it checks
--------------

The log-probability pass of a vocabulary-parallel head is over the limit, and computing its entropy in chunks of tokens needs less.

Why it matters
--------------

This head is not compiled: its entropy clones the logits and saves a softmax of the same size.
In chunks of 2,048 tokens the softmax is small.

When it does not apply
----------------------

The head is compiled, as it is by default under FSDP: one kernel already reads the logits once, so chunks save nothing forward, and in training they raise the peak.
Where the actor's update computes the entropy too, its backward pass would fail: the chunks are views of one tensor, and each changes it in place while the others still need it.
The published advice to set chunking for the reference has no effect in any release from 0.5 on, because the reference computes no entropy; the actor's setting is the one that acts.

Sources
-------

verl 0.9.1, ``workers/engine/megatron/transformer_impl.py``, ``utils/megatron/tensor_parallel.py`` (verl #6446).
verl documentation, performance tuning guide, "Memory optimization for entropy calculation from logits".
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due_proposal
from tuner.rules.rungs import entropy_in_chunks
from tuner.rules.wording import over

RULE = Rule(
    code="KRN003",
    name="entropy-chunking",
    summary=N_("a vocabulary-parallel entropy does not fit whole"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Chunk the entropy of a head that nothing compiles."""
    rung = due_proposal(case, entropy_in_chunks)
    if rung is None:
        return None
    phase, proposal = rung
    return Finding(
        rule=RULE,
        message=_("{shortage}, with a clone and a softmax as large as the logits for the entropy").format(
            shortage=over(case, phase)
        ),
        severity=case.severity(phase),
        evidence=Evidence.MODELLED,
        phase=phase,
        proposal=proposal,
    )
