"""Entropy in chunks that Megatron's backward pass cannot take

What it checks
--------------
``entropy_from_logits_with_chunking`` under Megatron, with an entropy term in the loss and micro-batches of more tokens than one chunk.
The override computes the entropy in one piece.

Why it matters
--------------
The update stops at its first backward pass: "one of the variables needed for gradient computation has been modified by an inplace operation".
The backward pass of the entropy changes its logits in place and puts them back.
Chunks are views of the same logits, so that the first chunk invalidates what all others have saved.

When it does not apply
----------------------
Without ``entropy_coeff`` the entropy has no backward pass.
A chunk that holds the whole micro-batch is the only one.
A fused head computes its own entropy.

Sources
-------
verl 0.9.1 ``utils/megatron/tensor_parallel.py:130`` (``_VocabParallelEntropy.backward``), line 154 (``vocab_parallel_entropy_with_chunking``).
Run with the same two functions on two chunks: torch 2.13.
"""

from collections.abc import Iterator

from tuner.batching import micro_batch_tokens
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, shards_with_fsdp
from tuner.workload import HeadKind, Phase, Workload

RULE = Rule(
    code="CFG142",
    name="megatron-entropy-chunks",
    summary=N_("entropy chunks whose backward pass fails under Megatron"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
)

GUARDS = (
    CodeGuard(
        words="_VocabParallelEntropy backward vocab_parallel_logits sub_",
        fails=True,
        releases=Releases(since="0.4.0"),
    ),
)

_CHUNKING = f"{ACTOR}.megatron.entropy_from_logits_with_chunking"
_SIZE = f"{ACTOR}.megatron.entropy_from_logits_chunk_size"
_COEFFICIENT = f"{ACTOR}.entropy_coeff"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for an entropy loss over several chunks."""
    head, chunk = workload.actor.head, workload.actor.head.chunk_tokens
    if shards_with_fsdp(workload) or head.kind is not HeadKind.LOGITS or chunk is None:
        return
    if settings.number(_COEFFICIENT, default=0.0) == 0 or _tokens(workload) <= chunk:
        return
    yield report(
        RULE,
        settings,
        _(
            "the update's entropy takes {tokens:,} tokens in chunks of {chunk:,}, and {release} "
            "fails in its backward pass with more than one"
        ).format(tokens=_tokens(workload), chunk=chunk, release=workload.release),
        keys=[_CHUNKING, _SIZE, _COEFFICIENT],
        overrides=[assign(settings, _CHUNKING, False)],
        phase=Phase.UPDATE_ACTOR,
        notes=[_("{coefficient}=0 keeps the chunks for log-probabilities").format(coefficient=_COEFFICIENT)],
    )


def _tokens(workload: Workload) -> int:
    """Tokens of the dimension that is cut: a packed micro-batch, or a padded sequence."""
    actor, batch = workload.actor, workload.batch
    if not actor.engine.packed:
        return batch.sequence_tokens // actor.engine.parallel.sequence_split
    return micro_batch_tokens(batch, workload.actor_update)
