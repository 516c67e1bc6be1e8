"""A mini-batch larger than the training batch

What it checks
--------------
``ppo_mini_batch_size`` of the actor or the critic above ``data.train_batch_size``.
The override is the training batch itself: one optimizer step per step.
A micro-batch that does not divide a rank's share of that is lowered with it.
Where the batch does not divide by what shares it, it is the batch as that check leaves it, which may be large enough.

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

from tuner.batching import divisors
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.even_batches import as_asserted, even_prompts
from tuner.trainers.verl.checks.guards import CodeGuard
from tuner.trainers.verl.checks.releases import Releases
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, CRITIC
from tuner.trainers.verl.releases import ENGINE_PREVIEW
from tuner.workload import Phase, StepPass, Workload

RULE = Rule(
    code="CFG111",
    name="mini-exceeds-train",
    summary=N_("a mini-batch larger than the training batch"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
    refuses=True,
    fine_print=True,
)

GUARDS = (CodeGuard(words="train_batch_size ppo_mini_batch_size"),)
_STATIC_ALWAYS = Releases(until=ENGINE_PREVIEW)  # a size that is set has to divide where a budget counts too
_UPDATES = {ACTOR: Phase.UPDATE_ACTOR, CRITIC: Phase.UPDATE_CRITIC}


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding for the actor, and one for a critic whose own mini-batch is larger still."""
    workload = as_asserted(settings, workload, version)
    prompts = workload.batch.prompts
    actor = settings.integer(f"{ACTOR}.ppo_mini_batch_size", minimum=1)
    if actor is not None and actor > prompts:
        yield _finding(ACTOR, actor, settings, workload, version)
    critic = settings.integer(f"{CRITIC}.ppo_mini_batch_size", minimum=1)
    if workload.critic is not None and critic is not None and critic > prompts and critic != actor:
        yield _finding(CRITIC, critic, settings, workload, version)


def _finding(section: str, mini: int, settings: Settings, workload: Workload, version: str) -> Finding:
    dynamic = settings.flag(f"{section}.use_dynamic_bsz")
    what = (
        _("does not notice and updates on fewer sequences than asked for")
        if dynamic
        else _("refuses to start")
    )
    key, prompts = f"{section}.ppo_mini_batch_size", workload.batch.prompts
    even = workload.with_batch(prompts=even_prompts(settings, workload, version))
    lowered = [assign(settings, key, even.batch.prompts), *_dividing_sizes(key, settings, even, version)]
    if mini <= even.batch.prompts:  # the batch does not divide, and is large enough once it does
        lowered = [assign(settings, "data.train_batch_size", even.batch.prompts)]
    return report(
        RULE,
        settings,
        _("{key}={mini} exceeds data.train_batch_size={prompts}: {release} {what}").format(
            key=key, mini=mini, prompts=prompts, release=workload.release, what=what
        ),
        keys=[key, "data.train_batch_size"],
        # what a copy of verl adds may bring other sequences to a mini-batch than those of the prompts
        overrides=[] if settings.added_parts else lowered,
        severity=Severity.WARNING if dynamic else None,
        phase=_UPDATES[section],
    )


def _dividing_sizes(key: str, settings: Settings, workload: Workload, version: str) -> Iterator[str]:
    """Overrides that lower the micro-batches which a rank's part of the lowered mini-batch does not hold evenly.

    Those of the critic too, where its mini-batch follows the actor's.

    Source: verl 0.7.1 ``workers/fsdp_workers.py:249-268``, copies of verl 0.1 ``workers/actor/dp_actor.py``
    (``update_policy``): a rank's mini-batch has to be a multiple of its micro-batch.
    """
    after = settings.with_value(key, workload.batch.prompts)
    for section, phase in _UPDATES.items():
        mini, step_pass = f"{section}.ppo_mini_batch_size", workload.pass_of(phase)
        static = not settings.flag(f"{section}.use_dynamic_bsz") or version in _STATIC_ALWAYS
        if step_pass is not None and static and after.get(mini) != settings.get(mini):
            yield from _dividing_size(section, step_pass, settings, workload)


def _dividing_size(
    section: str, step_pass: StepPass, settings: Settings, workload: Workload
) -> Iterator[str]:
    """The override of one micro-batch, of all GPUs or of one as the user counts it; nothing where it divides."""
    ranks, micro = step_pass.engine.parallel.data, step_pass.batching.micro_batch_sequences
    share = step_pass.rank_mini_batch_sequences(workload.batch)  # no mini-batch is larger than the step
    if share % micro == 0:
        return
    fitting = max(size for size in divisors(share) if size <= micro)
    key = f"{section}.ppo_micro_batch_size"
    everywhere = settings.integer(key, minimum=1)
    if everywhere is not None and everywhere // ranks == micro:
        yield assign(settings, key, fitting * ranks)
    elif everywhere is None and settings.integer(f"{key}_per_gpu", minimum=1) == micro:
        yield assign(settings, f"{key}_per_gpu", fitting)
