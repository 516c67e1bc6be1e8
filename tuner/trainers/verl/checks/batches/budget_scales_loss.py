"""A token budget under which a copy divides the loss by another number of micro-batches

What it checks
--------------
``use_dynamic_bsz=True`` of the actor or the critic, in a copy of verl that divides the loss of every micro-batch by ``ppo_mini_batch_size`` over ``ppo_micro_batch_size``.
The override gives ``ppo_micro_batch_size`` the size that makes the divisor about as many as the budget makes at the mean length of the sequences; memory stays as it is.
Where no size does, or none is set, it counts micro-batches in sequences again.

Why it matters
--------------
A budget makes as many micro-batches as the tokens of a mini-batch need, and the loss is divided by as many as the fixed size would make.
Where a budget makes half as many, the gradient is half of what it should be, and it changes from step to step with the lengths of the responses.
The optimizer hides most of that; clipping of gradients does not.

When it does not apply
----------------------
Releases from 0.2 on, which weight a micro-batch of a budget by its share of the mini-batch.
A copy that does so too.
A size whose divisor is already the nearest one to the micro-batches that the budget makes.

Sources
-------
Search-R1 at commit a14dc3a, on verl 0.1: ``verl/workers/actor/dp_actor.py`` (``update_policy``), ``verl/workers/critic/dp_critic.py`` (``update_critic``): ``/ self.gradient_accumulation`` in both cases.
verl 0.3.0.post1 ``workers/actor/dp_actor.py:311-315``: ``len(data) / self.config.ppo_mini_batch_size``.
"""

from collections.abc import Iterator
from math import log

from msgspec import Struct

from tuner.batching import divisors, micro_batches, pass_sequences
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, CRITIC
from tuner.workload import Phase, StepPass, Workload

RULE = Rule(
    code="CFG190",
    name="budget-scales-loss",
    summary=N_("a token budget under which the loss is divided by another number of micro-batches"),
    severity=Severity.WARNING,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    fine_print=True,
)


class _Remedy(Struct, frozen=True, kw_only=True):
    """A model's way out: the override, and what the budget and the size come to."""

    override: str
    divides: int | None = None  # by what the loss is divided then; None where no budget is left


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding, of all models that are trained so."""
    if not workload.batch.budgets_scale_loss:
        return
    sections = {Phase.UPDATE_ACTOR: ACTOR, Phase.UPDATE_CRITIC: CRITIC}
    remedies = {
        f"{sections[step_pass.phase]}.use_dynamic_bsz": remedy
        for step_pass in workload.passes()
        if step_pass.phase in sections and settings.flag(f"{sections[step_pass.phase]}.use_dynamic_bsz")
        if (remedy := _remedy(settings, workload, step_pass, sections[step_pass.phase])) is not None
    }
    if remedies:
        yield report(
            RULE,
            settings,
            _(
                "{key}=True: this copy of {release} divides the loss by ppo_mini_batch_size / "
                "ppo_micro_batch_size, however many micro-batches the budget makes"
            ).format(key=next(iter(remedies)), release=workload.release),
            keys=list(remedies),
            overrides=[remedy.override for remedy in remedies.values()],
            phase=Phase.UPDATE_ACTOR,
            notes=[
                _note(remedy.divides, workload) for remedy in remedies.values() if remedy.divides is not None
            ],
        )


def _remedy(settings: Settings, workload: Workload, step_pass: StepPass, section: str) -> _Remedy | None:
    """What makes the divisor that of the micro-batches; None where no other size comes nearer to it."""
    static = _Remedy(override=assign(settings, f"{section}.use_dynamic_bsz", False))
    key = f"{section}.ppo_micro_batch_size"
    size, sequences = settings.integer(key), pass_sequences(workload.batch, step_pass)
    micro = step_pass.batching.micro_batch_sequences
    if size is None or sequences % micro:
        return static
    mean = workload.batch.mean_sequence_tokens
    many = micro_batches(workload.batch, step_pass, sequence_tokens=mean)
    sizes = [cut for cut in divisors(sequences) if size * cut % micro == 0]
    nearest = min(sizes, key=lambda cut: abs(log(sequences / cut / many)))
    if nearest == micro:
        return None
    return _Remedy(override=assign(settings, key, size * nearest // micro), divides=sequences // nearest)


def _note(divides: int, workload: Workload) -> str:
    return _(
        "The loss is divided by {count} with it, about as many micro-batches as the budget makes of sequences "
        "of {tokens:,.0f} tokens on average; memory stays as it is."
    ).format(count=divides, tokens=workload.batch.mean_sequence_tokens)
