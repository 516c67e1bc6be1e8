"""A mini-batch larger than the training batch

What it checks
--------------
``ppo_mini_batch_size`` of the actor or the critic above ``data.train_batch_size``.
The override is the training batch itself: one optimizer step per step.

Why it matters
--------------
With static batches verl refuses to start.
With dynamic batches it does not look: the update then takes whatever there is, but normalises the loss by the mini-batch that was asked for, so that gradients are smaller than meant; 0.9.0's V1 trainer fills the batch up with dummy sequences instead.

When it does not apply
----------------------
Both are counted in prompts; ``rollout.n`` multiplies both.

Sources
-------
verl 0.9.1 ``workers/config/actor.py:224-229``, ``workers/config/critic.py:124-129``; verl 0.4.1 ``trainer/ppo/ray_trainer.py:437``.
verl 0.7.1 ``workers/actor/dp_actor.py:582-583`` (loss scale under dynamic batches); verl 0.9.1 ``trainer/ppo/v1/trainer_base.py:1590-1606`` (least common multiple).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, CRITIC
from tuner.workload import Phase, Workload

RULE = Rule(
    code="CFG111",
    name="mini-exceeds-train",
    summary=N_("a mini-batch larger than the training batch"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
)

GUARDS = (CodeGuard(words="train_batch_size ppo_mini_batch_size"),)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for the actor, and one for a critic whose own mini-batch is larger still."""
    prompts = workload.batch.prompts
    actor = settings.integer(f"{ACTOR}.ppo_mini_batch_size", minimum=1)
    if actor is not None and actor > prompts:
        yield _finding(ACTOR, actor, settings, workload)
    critic = settings.integer(f"{CRITIC}.ppo_mini_batch_size", minimum=1)
    if workload.critic is not None and critic is not None and critic > prompts and critic != actor:
        yield _finding(CRITIC, critic, settings, workload)


def _finding(section: str, mini: int, settings: Settings, workload: Workload) -> Finding:
    dynamic = settings.flag(f"{section}.use_dynamic_bsz")
    what = (
        _("does not notice and updates on fewer sequences than asked for")
        if dynamic
        else _("refuses to start")
    )
    key, prompts = f"{section}.ppo_mini_batch_size", workload.batch.prompts
    return report(
        RULE,
        settings,
        _("{key}={mini} exceeds data.train_batch_size={prompts}: {release} {what}").format(
            key=key, mini=mini, prompts=prompts, release=workload.release, what=what
        ),
        keys=[key, "data.train_batch_size"],
        # what a copy of verl adds may bring other sequences to a mini-batch than those of the prompts
        overrides=[] if settings.added_parts else [assign(settings, key, prompts)],
        severity=Severity.WARNING if dynamic else None,
        phase=Phase.UPDATE_ACTOR if section == ACTOR else Phase.UPDATE_CRITIC,
    )
