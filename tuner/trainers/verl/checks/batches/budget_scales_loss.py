"""A token budget under which a copy divides the loss by another number of micro-batches

What it checks
--------------
``use_dynamic_bsz=True`` of the actor or the critic, in a copy of verl that divides the loss of every micro-batch by ``ppo_mini_batch_size`` over ``ppo_micro_batch_size``.
The override counts micro-batches in sequences again.

Why it matters
--------------
A budget makes as many micro-batches as the tokens of a mini-batch need, and the loss is divided by as many as the fixed size would make.
Where a budget makes half as many, the gradient is half of what it should be, and it changes from step to step with the lengths of the responses.
The optimizer hides most of that; clipping of gradients does not.

When it does not apply
----------------------
Releases from 0.2 on, which weight a micro-batch of a budget by its share of the mini-batch.
A copy that does so too.

Sources
-------
Search-R1 at commit a14dc3a, on verl 0.1: ``verl/workers/actor/dp_actor.py`` (``update_policy``), ``verl/workers/critic/dp_critic.py`` (``update_critic``): ``/ self.gradient_accumulation`` in both cases.
verl 0.3.0.post1 ``workers/actor/dp_actor.py:311-315``: ``len(data) / self.config.ppo_mini_batch_size``.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, CRITIC
from tuner.workload import Phase, Workload

RULE = Rule(
    code="CFG190",
    name="budget-scales-loss",
    summary=N_("a token budget under which the loss is divided by another number of micro-batches"),
    severity=Severity.WARNING,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding, of all models that are trained so."""
    sections = {ACTOR: Phase.UPDATE_ACTOR}
    if workload.critic is not None:
        sections[CRITIC] = Phase.UPDATE_CRITIC
    if not workload.batch.budgets_scale_loss:
        return
    switches = [f"{section}.use_dynamic_bsz" for section in sections]
    on = [switch for switch in switches if settings.flag(switch)]
    if on:
        yield report(
            RULE,
            settings,
            _(
                "{key}=True: this copy of {release} divides the loss by ppo_mini_batch_size / "
                "ppo_micro_batch_size, however many micro-batches the budget makes"
            ).format(key=on[0], release=workload.release),
            keys=on,
            overrides=[assign(settings, switch, False) for switch in on],
            phase=next(iter(sections.values())),
        )
