"""Generate the groups of a step in few rounds

What it checks
--------------

A filter of groups generates round after round, and rounds of more prompts would make the step shorter.
The proposal is one, two or three times the prompts that a step trains on, whichever takes the least time.

Why it matters
--------------

A round lasts as long as its longest response, however few prompts it has, and the last of its responses decode nearly alone.
Many small rounds pay for that each, and before verl 0.7.1 each of them begins with a weight sync of its own.
A trainer that ends with an error after ``algorithm.filter_groups.max_num_gen_batches`` rounds may never fill a step with small ones.

When it does not apply
----------------------

Groups beyond those that a step needs are thrown away, and so are their prompts: an epoch has fewer steps.
How many rounds a step takes rests on the share of groups that is kept; ``--kept-groups`` says it.
Trainers that replace single groups have no rounds.
Which prompts a step trains on changes, so it is yours to decide.

Sources
-------

verl 0.4.1 to 0.7.0 ``recipe/dapo/dapo_ray_trainer.py`` (``fit``: ``num_gen_batches``, ``gen_prompt_bsz``).
"""

from collections.abc import Iterator

from msgspec.structs import replace

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.rules.wording import duration
from tuner.workload import Phase, Workload

RULE = Rule(
    code="ROL031",
    name="generation-rounds",
    summary=N_("a filter of groups generates in many small rounds"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.CHANGED,
    yours=True,
)

_MOST_STEPS = 3  # of prompts in a round: as many as verl's own script of DAPO generates


def check(case: Case) -> Finding | None:
    """Propose the size of a round that takes the least time."""
    workload = case.workload
    paying = [proposal for proposal in _larger(workload) if case.pays_another_training(proposal)]
    best = min(paying, key=case.seconds, default=None)
    if best is None:
        return None
    return Finding(
        rule=RULE,
        message=_(
            "a step takes {rounds:.1f} rounds of {prompts} until enough groups are kept; of {more} it takes "
            "{fewer:.1f}, and its rollout {then} s in place of {now} s"
        ).format(
            rounds=workload.batch.filter_rounds,
            prompts=counted(_round(workload), "prompt"),
            more=counted(_round(best), "prompt"),
            fewer=best.batch.filter_rounds,
            then=_rollout(case.with_workload(best)),
            now=_rollout(case),
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=best,
    )


def _larger(workload: Workload) -> Iterator[Workload]:
    """The job with rounds of more prompts, where it has rounds that a setting sizes."""
    batch = workload.batch
    filtered = batch.group_filter
    if filtered is None or filtered.round_prompts is None or filtered.once:
        return
    for steps in range(1, _MOST_STEPS + 1):
        prompts = steps * batch.prompts
        if prompts > filtered.round_prompts:
            yield workload.with_batch(group_filter=replace(filtered, round_prompts=prompts))


def _round(workload: Workload) -> int:
    """The prompts of a round."""
    filtered = workload.batch.group_filter
    return workload.batch.prompts if filtered is None else filtered.round_prompts or workload.batch.prompts


def _rollout(case: Case) -> str:
    """The seconds of all rounds."""
    rollout = case.time.phase(Phase.ROLLOUT)
    return "" if rollout is None else duration(rollout.seconds)
