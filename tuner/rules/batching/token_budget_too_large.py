"""Lower the update's token budget until it fits

What it checks
--------------

The update is over the limit and its token budget is more than one longest sequence.
The proposal is the largest multiple of the longest sequence that fits, one where none does.

Why it matters
--------------

Activations, logits and their gradients grow with the tokens of a micro-batch; model states do not.
A smaller budget changes nothing but the number of micro-batches, which the message names: each of them gathers the weights and launches its kernels anew.

When it does not apply
----------------------

Model states alone are over the limit, so that no budget fits: other rules speak as well.
Recomputing activations would be enough: it is cheaper and named first.

Sources
-------

verl documentation, performance tuning guide, "Dynamic Batch Size Tuning Tips".
verl #855, #2031, #3364.
"""

from msgspec.structs import replace

from tuner.batching import micro_batches
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.batching.forward_budget_too_large import FORWARD
from tuner.rules.case import Case
from tuner.rules.ladder import due
from tuner.rules.passes import actor_update, site_of, smaller
from tuner.rules.rungs import one_sequence
from tuner.rules.wording import count, over
from tuner.workload import Phase, Workload

RULE = Rule(
    code="BAT003",
    name="token-budget-too-large",
    summary=N_("the update does not fit and a smaller token budget helps"),
    severity=Severity.WARNING,
    goal=Goal.MEMORY,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Lower the budget of the update."""
    site = actor_update(case.workload)
    if not site.dynamic or due(case, one_sequence, among=(Phase.UPDATE_ACTOR, Phase.TRAIN)) is None:
        return None
    proposal = _with_followers(case, smaller(case, site))
    if proposal is None or not case.lowers_much(proposal, site.phase):
        return None
    return lowered(case, proposal, site.phase)


def lowered(case: Case, proposal: Workload, phase: Phase) -> Finding:
    """What is said of a proposal with fewer tokens in a micro-batch, where this phase is short."""
    before, after = _micro_batches(case.workload), _micro_batches(proposal)
    text = (
        _("{shortage} with {tokens} tokens in a micro-batch; {fewer} need less")
        if before == after
        else _(
            "{shortage} with {tokens} tokens in a micro-batch; {fewer} need less, and make {after} "
            "micro-batches of {before}"
        )
    )
    return Finding(
        rule=RULE,
        message=text.format(
            shortage=over(case, phase),
            tokens=count(case.workload.actor.update.batching.token_budget),
            fewer=count(proposal.actor.update.batching.token_budget),
            before=count(before),
            after=count(after),
        ),
        severity=case.severity(phase),
        evidence=Evidence.MODELLED,
        phase=phase,
        proposal=proposal,
    )


def _with_followers(case: Case, proposal: Workload | None) -> Workload | None:
    """The proposal with the new budget in the passes as well that have the old one and do not fit with it.

    Their budgets follow the update's unless somebody sets them apart: to hold one to what is too large for it
    would undo that.
    """
    if proposal is None:
        return None
    before, after = (one.actor.update.batching.token_budget for one in (case.workload, proposal))
    for phase in FORWARD:
        follower = site_of(proposal, phase)
        if follower is None or not follower.dynamic or case.short(phase) is None:
            continue
        batching = follower.one_pass.batching
        if batching.token_budget == before:
            changed = replace(follower.one_pass, batching=replace(batching, token_budget=after))
            proposal = follower.put(proposal, changed)
    return proposal


def _micro_batches(workload: Workload) -> int:
    """Micro-batches of an optimizer step on one rank, of sequences of the mean length."""
    batch = workload.batch
    return micro_batches(batch, workload.actor_update, sequence_tokens=batch.mean_sequence_tokens)
