"""Train without the responses that teach nothing

What it checks
--------------

You said what share of the responses has no advantage (``--zero-advantage-ratio``), and training on the others alone would take a percent of the step away or more.
Without the option nothing is said: no setting tells how often all responses to a prompt get the same reward.

Why it matters
--------------

The policy gradient is a multiple of the advantage.
Where all rewards of a group are equal, as on prompts that are too easy or too hard, its responses go forward and backward for a gradient of zero.
The number of optimizer steps stays, and each has fewer tokens.
Memory is decided by the largest micro-batch, which stays as well.

When it does not apply
----------------------

No release up to 0.9.1 can do it by itself, so it is information and never part of what is to be pasted; ``TUNER_SKIP_ZERO_ADVANTAGE=keep-steps`` does it where the workers load ``tuner.inside_verl``.
It leaves the training as it is only where the loss has no KL term and no entropy bonus, and where the tokens or sequences that it is divided by are still counted with those that are left out.
Some policy losses have a term of their own that does not vanish (``kl_cov``, ``dro``), and an auxiliary loss of a mixture of experts acts on every token.
Advantages that are whitened over the batch afterwards, those of a critic, and those against a greedy response do not vanish with the rewards' differences, so the option is refused there.
Rewards that float32 does not add up exactly leave an advantage where all of a group are equal: eight times 0.9 have another mean in the last digit, and divided by a deviation that is rounding error as well this makes advantages of some hundredths.
Those are noise, which is left out along; rewards of 0, 1 and -1 and whole multiples of a power of two have none.
A mini-batch of which nothing is left makes an optimizer step without a gradient, in which weight decay and momentum still move the weights.
To filter such groups and to generate others in their place is another thing: it changes the batch, and costs generation instead.

Sources
-------

verl #5838 (not merged), which reports an update 41 % shorter; #5770 (its metric, not merged).
verl 0.9.1 ``workers/utils/losses.py`` (``ppo_loss``), ``trainer/ppo/core_algos.py`` (``compute_grpo_outcome_advantage``, ``agg_loss``).
verl 0.9.0 and later, ``trainer/ppo/v1/replay_buffer.py``: groups that are filtered are replaced.
"""

from math import ceil

from msgspec.structs import replace

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import LEAST_GAIN, Case
from tuner.rules.wording import gib, spent
from tuner.units import GIB
from tuner.workload import Phase, Workload

RULE = Rule(
    code="BAT013",
    name="zero-advantage",
    summary=N_("responses without advantage are trained on"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.REORDERED,
    yours=True,
)

_LEAST_BYTES = 0.05 * GIB  # a smaller difference is not worth a word


def check(case: Case) -> Finding | None:
    """Say what leaving out the responses without advantage would save."""
    batch, before = case.workload.batch, case.time.phase(Phase.UPDATE_ACTOR)
    if not batch.zero_advantage_ratio or not batch.group_advantages or before is None:
        return None
    without = case.with_workload(_without(case.workload, batch.zero_advantage_ratio))
    after = without.time.phase(Phase.UPDATE_ACTOR)
    saved_s = 0.0 if after is None else before.seconds - after.seconds
    if saved_s < LEAST_GAIN * case.time.seconds:
        return None
    saved = case.peak_bytes(Phase.UPDATE_ACTOR) - without.peak_bytes(Phase.UPDATE_ACTOR)
    text = (
        _(
            "{ratio:.0%} of the responses have no advantage; without them update_actor takes "
            "{without} instead of {update}, and the step is {shorter:.0%} shorter; "
            "its peak falls by {saved}; {release} itself cannot skip them"
        )
        if saved >= _LEAST_BYTES
        else _(
            "{ratio:.0%} of the responses have no advantage; without them update_actor takes "
            "{without} instead of {update}, and the step is {shorter:.0%} shorter; "
            "{release} itself cannot skip them"
        )
    )
    return Finding(
        rule=RULE if batch.loss_of_advantages else replace(RULE, numerics=Numerics.CHANGED),
        message=text.format(
            ratio=batch.zero_advantage_ratio,
            without=spent(case.interval(before if after is None else after)),
            update=spent(case.interval(before)),
            shorter=saved_s / case.time.seconds,
            saved=gib(saved),
            release=case.workload.release,
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.UPDATE_ACTOR,
        notes=(_effect(case.workload),),
    )


def _without(workload: Workload, ratio: float) -> Workload:
    """The job with as many mini-batches, each with the responses that have an advantage."""
    batch = workload.batch
    mini_batch = min(batch.mini_batch_prompts, batch.prompts)
    left = max(1, ceil(mini_batch * (1 - ratio)))
    return workload.with_batch(mini_batch_prompts=left, prompts=left * ceil(batch.prompts / mini_batch))


def _effect(workload: Workload) -> str:
    if not workload.batch.loss_of_advantages:
        return _(
            "The KL term or the entropy bonus of this loss acts on those responses too: without "
            "them the training is another"
        )
    return _(
        "The training would stay as it is: this loss is a multiple of the advantage, and "
        "what it is divided by has to count them still, as TUNER_SKIP_ZERO_ADVANTAGE=keep-steps "
        "does where the workers load tuner; equal rewards such as 0.9, which "
        "float32 does not add up exactly, leave advantages of some hundredths, which are "
        "noise"
    )
