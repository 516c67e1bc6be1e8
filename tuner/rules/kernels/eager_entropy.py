"""Compile the entropy

What it checks
--------------

Entropy is computed eagerly, in a pass that computes it, and compiling it lowers that pass's peak.

Why it matters
--------------

Eagerly, softmax, logsumexp and their product each make a float32 tensor as large as the logits.
Together with the logits that is about 14 bytes per token and vocabulary entry forward, and 26 in training; compiled, one kernel reads the logits once: 2 and 6.
Compiled it is also two to three times faster.

When it does not apply
----------------------

Sequences are padded: that path never compiles; pack them first.
A vocabulary-parallel head does not go through the compiler.
On an Ascend card, where the trainer's own launches all leave the compiler off.
The compiler fails on this machine: then chunks of tokens bring the forward pass down, though not the training pass.

Sources
-------

verl 0.9.1, ``workers/engine/fsdp/transformer_impl.py`` (compiled by default), ``utils/torch_functional.py``.
verl 0.7.1, ``examples`` and ``tests/special_npu``: 25 launches for Ascend with ``use_torch_compile=False``, none without.
Bytes per logit measured on two H200 with verl 0.9.1 and torch 2.11.0, 2026-11-20.
"""

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.rungs import entropy_compiled
from tuner.rules.wording import gib
from tuner.workload import HeadKind, Phase

RULE = Rule(
    code="KRN002",
    name="eager-entropy",
    summary=N_("entropy is computed eagerly, in float32 tensors as large as the logits"),
    severity=Severity.ADVICE,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Compile the entropy wherever it is computed."""
    actor = case.workload.actor
    if case.workload.cluster.gpu.is_ascend:
        return None
    if actor.head.compiled or actor.head.kind is not HeadKind.LOGITS:
        return None
    passes = {case.workload.actor_update.phase: actor.update, Phase.OLD_LOG_PROB: actor.log_prob}
    phases = [phase for phase, one_pass in passes.items() if one_pass is not None and one_pass.entropy]
    phase = max(phases, key=case.peak_bytes, default=None)
    if phase is None:
        return None
    proposal = entropy_compiled(case.workload, phase)
    if not case.lowers(proposal, phase) or case.slower(proposal):
        return None
    saved = case.peak_bytes(phase) - case.with_workload(proposal).peak_bytes(phase)
    return Finding(
        rule=RULE,
        message=_("{phase} computes the entropy eagerly; compiled it needs {saved} less").format(
            phase=phase.value, saved=gib(saved)
        ),
        severity=case.severity(phase),
        evidence=Evidence.MEASURED,
        phase=phase,
        proposal=proposal,
    )
