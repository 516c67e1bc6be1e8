"""Choose a mini-batch that divides the batch

What it checks
--------------

The prompts of a step are not a multiple of the mini-batch.
The proposal is the nearest mini-batch that divides them and that all ranks can share.

Why it matters
--------------

The trainer fills the batch up with sequences of padding, to the next multiple of all mini-batches.
They are short (two tokens in verl 0.9.0, 128 in 0.9.1), so their computation is little; with their loss masked they teach nothing.
They stand in the place of responses, so some optimizer steps learn from fewer of these than others, and there is one step more than the batch has full mini-batches.

When it does not apply
----------------------

The batch is a multiple of the mini-batch, or smaller than it.
The trainer takes a last mini-batch that is smaller as it is, as older ones do.
Another mini-batch changes the number of optimizer steps per batch, so check that it suits the algorithm.

Sources
-------

verl 0.9.0 and 0.9.1, ``trainer/ppo/v1/trainer_base.py`` (``_get_required_batch_multiple``, ``_balance_batch``) and ``trainer/ppo/padding_utils.py`` (``construct_minimal_padding_template``); up to 0.8.0, ``batch.split`` leaves a shorter last mini-batch.
"""

from math import lcm

from tuner.batching import divisors
from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, ngettext
from tuner.rules.case import Case
from tuner.rules.wording import count

RULE = Rule(
    code="BAT009",
    name="padding-sequences",
    summary=N_("the batch is no multiple of the mini-batch, so optimizer steps are filled up with padding"),
    severity=Severity.ADVICE,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)


def check(case: Case) -> Finding | None:
    """Propose the nearest mini-batch that divides the batch."""
    batch, ranks = case.workload.batch, case.workload.actor.engine.parallel.data
    if not batch.fills_mini_batches:
        return None
    if batch.mini_batch_prompts >= batch.prompts or batch.prompts % batch.mini_batch_prompts == 0:
        return None
    dividing = [
        prompts for prompts in divisors(batch.prompts) if prompts * batch.responses_per_prompt % ranks == 0
    ]
    if not dividing:
        return None
    best = min(dividing, key=lambda prompts: abs(prompts - batch.mini_batch_prompts))
    padding = -batch.sequences % _multiple(case)
    return Finding(
        rule=RULE,
        message=ngettext(
            "{prompts} are no multiple of the mini-batch of {mini_batch}; {padding} sequence of padding fills "
            "them up, so optimizer steps learn from unequal numbers of responses",
            "{prompts} are no multiple of the mini-batch of {mini_batch}; {padding} sequences of padding fill "
            "them up, so optimizer steps learn from unequal numbers of responses",
            padding,
        ).format(
            prompts=counted(batch.prompts, "prompt"),
            mini_batch=count(batch.mini_batch_prompts),
            padding=count(padding),
        ),
        severity=RULE.severity,
        evidence=Evidence.EXACT,
        phase=case.workload.actor_update.phase,
        proposal=case.workload.with_batch(mini_batch_prompts=best),
    )


def _multiple(case: Case) -> int:
    """Sequences of which the trainer makes a multiple: whole mini-batches of every model that is trained."""
    training = [one for one in case.workload.passes() if one.training]
    return lcm(*(one.mini_batch_sequences(case.workload.batch) for one in training))
