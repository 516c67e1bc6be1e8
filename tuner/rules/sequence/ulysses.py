"""Share a long sequence between GPUs

What it checks
--------------

A pass of the actor, its reference or the critic is over the limit with one sequence at a time, recomputation, a fused head and offloaded activations, and Ulysses sequence parallelism needs less.
The proposal is the smallest number of GPUs per sequence that fits, with one sequence as the budget.
A fused head that rounds log-probabilities, as PyTorch's does before verl 0.8.0, makes the training another: it does not count among the cheaper ways.
Actor and reference get the same number; the critic has one of its own, and keeps it where its passes fit.

Why it matters
--------------

One sequence cannot be split into micro-batches.
Beyond about 32,000 tokens its activations and logits alone fill a card.
Ulysses gives each GPU a share of the tokens and, inside attention, a share of the heads, so both activations and logits are divided.

When it does not apply
----------------------

Sequences are padded: the split needs packing.
Attention heads, and key-value heads one way or the other, must be divisible by the number of GPUs.
Weights and optimizer states are not divided by it.
Megatron has context parallelism instead.

Sources
-------

verl documentation, performance tuning guide, "Ulysses Sequence Parallel for Long Context Training".
DeepSpeed Ulysses (arXiv:2309.14509).
verl 0.9.1, ``models/transformers/monkey_patch.py`` (heads), ``workers/engine/fsdp/transformer_impl.py`` (packing).
"""

from collections.abc import Sequence

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.ladder import due_phases
from tuner.rules.rungs import CRITIC_PHASES, engine_of, fuses_exactly, head_fused
from tuner.rules.sequence_sharing import sequence_shared, sequence_splits, split_over
from tuner.rules.wording import over
from tuner.workload import Phase, Workload

RULE = Rule(
    code="SEQ002",
    name="ulysses",
    summary=N_("one sequence is too long for one GPU"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Share sequences between as few GPUs as are enough, in the critic apart from the others."""
    workload = case.workload
    # A head that makes the training another is no cheaper way, however much it frees.
    but = () if fuses_exactly(workload) else (head_fused,)
    phases = due_phases(case, sequence_shared, but=but)
    if not phases:
        return None
    proposal = _all_shared(case, workload, phases)
    # Sizes that divide the new number of ranks can make it due in the other model as well.
    further = due_phases(case.with_workload(proposal), sequence_shared, but=but)
    proposal = _all_shared(case, proposal, further)
    ranks = engine_of(proposal, phases[0]).parallel.ulysses
    return Finding(
        rule=RULE,
        message=_(
            "{shortage}, and one sequence of {sequence_tokens:,} tokens is the smallest micro-batch; "
            "{ranks} GPUs can share it"
        ).format(shortage=over(case, phases[0]), sequence_tokens=workload.batch.reached_tokens, ranks=ranks),
        severity=case.severity(phases[0]),
        evidence=Evidence.MODELLED,
        phase=phases[0],
        proposal=proposal,
    )


def _all_shared(case: Case, workload: Workload, phases: Sequence[Phase]) -> Workload:
    """The workload with sequences shared in these phases, of the critic or of the others."""
    for of_critic in (False, True):
        chosen = [phase for phase in phases if (phase in CRITIC_PHASES) == of_critic]
        workload = _shared(case, workload, chosen)
    return workload


def _shared(case: Case, workload: Workload, phases: Sequence[Phase]) -> Workload:
    """The workload with as few GPUs per sequence as are enough in these phases, as many as may be if none is."""
    if not phases:
        return workload
    splits = [split_over(workload, phases, ranks) for ranks in sequence_splits(workload, phases[0])]
    return next((split for split in splits if case.eases(split, *phases)), splits[-1])
