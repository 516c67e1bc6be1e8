"""Fill micro-batches by tokens, not by sequences

What it checks
--------------

Micro-batches hold a fixed number of sequences, and filling them up to the same worst-case number of tokens shortens the step.
The proposal keeps every pass's worst case, so the peak stays where it is.
Where a larger micro-batch of the update fits, and any other cut weighs tokens otherwise, the budget is as large as that one where it fits.

Why it matters
--------------

Memory is set by the longest sequences, time by the mean ones.
A fixed number of sequences must be small enough for all of them to be long, so most micro-batches are half empty.
A token budget packs short sequences together and balances ranks by their tokens.

When it does not apply
----------------------

A larger fixed micro-batch of the update pays and leaves the loss as it is, or the present one does not fit: those are named first.
All sequences are about equally long, or each rank has one micro-batch already.
An update that takes a rank's whole mini-batch at a time stays as it is, and passes that take less get their budgets alone.
The prompts hold images and the release cannot fill a budget with them.
A copy of verl from before 0.2 that divides the loss of a micro-batch as if all had a fixed size: a budget would scale the gradient.
Sequences are padded: then a micro-batch of short sequences is as large as its longest one makes it.

Sources
-------

verl documentation, performance tuning guide, "Tuning for Dynamic Batch Size".
verl 0.9.1, ``utils/seqlen_balancing.py``, ``rearrange_micro_batches``.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.passes import Site, actor_update, all_passes, larger
from tuner.workload import Workload

RULE = Rule(
    code="BAT001",
    name="dynamic-batching",
    summary=N_("micro-batches hold a fixed number of sequences, whatever their length"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
)


def check(case: Case) -> Finding | None:
    """Budget tokens in every static pass, at its present worst case."""
    workload = case.workload
    images = workload.batch.images
    if workload.batch.budgets_scale_loss or (images is not None and not images.in_budgets):
        return None
    update = actor_update(workload)
    static = [
        site
        for site in all_passes(workload)
        if not site.dynamic
        and site.engine.packed
        and not (site.phase is update.phase and _takes_all(workload, site))
    ]
    if not static or case.short() is not None:
        return None
    size = None if update.dynamic else larger(case, update)
    averages = workload.batch.loss_averages_micro_batches
    if size is not None and not (averages and any(site.phase is update.phase for site in static)):
        return None
    if size is not None:
        size = _largest(case, static, update, size)
    proposal = _all_budgeted(workload, static, update, size)
    if not case.pays(proposal):
        return None
    site = next((site for site in static if site.phase is update.phase), static[0])
    return Finding(
        rule=RULE,
        message=_message(workload, site, size),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=site.phase,
        proposal=proposal,
    )


def _largest(case: Case, static: Sequence[Site], update: Site, most: int) -> int | None:
    """The largest budget of the update in longest sequences: it may be exceeded, so one of ``most`` may not fit."""
    workload = case.workload
    sizes = [size for size in update.sizes(workload) if update.size(workload) < size <= most]
    return case.largest(sizes, lambda size: _all_budgeted(workload, static, update, size))


def _all_budgeted(workload: Workload, static: Sequence[Site], update: Site, size: int | None) -> Workload:
    """The workload with a budget in each of the passes, the update's of ``size`` longest sequences if told."""
    proposal = workload
    for site in static:
        proposal = _budgeted(proposal, site, size if site.phase is update.phase else None)
    return proposal


def _message(workload: Workload, site: Site, size: int | None) -> str:
    """What a pass takes at a time, and what a budget of the same memory holds, or of ``size`` sequences."""
    if size is None:
        tokens = _tokens(workload, site)
        text = _(
            "{phase} takes {sequences} at a time; as a budget of {tokens:,} tokens the same memory "
            "holds more of the shorter ones"
        )
    else:
        tokens = size * site.share(workload)
        text = _(
            "{phase} takes {sequences} at a time; a budget of {tokens:,} tokens fits, and holds more of the "
            "shorter ones"
        )
    sequences = counted(site.one_pass.batching.micro_batch_sequences, "sequence")
    return text.format(phase=site.phase.value, sequences=sequences, tokens=tokens)


def _takes_all(workload: Workload, site: Site) -> bool:
    """Whether one micro-batch holds all that a rank has: no budget makes fewer."""
    return site.one_pass.batching.micro_batch_sequences >= site.sequences(workload)


def _tokens(workload: Workload, site: Site) -> int:
    sequences = min(site.one_pass.batching.micro_batch_sequences, site.sequences(workload))
    return sequences * site.share(workload)


def _budgeted(workload: Workload, site: Site, sequences: int | None = None) -> Workload:
    """The workload with a budget in one pass, of as many longest sequences as it takes now or of so many."""
    budget = _tokens(workload, site) if sequences is None else sequences * site.share(workload)
    batching = replace(site.one_pass.batching, dynamic=True, token_budget=budget)
    return site.put(workload, replace(site.one_pass, batching=batching))
