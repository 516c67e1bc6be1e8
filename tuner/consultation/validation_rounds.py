"""Validate in fewer and larger batches

What it checks
--------------

A validation generates its data in batches, one after the other, and larger ones take less time.
The proposal is the smallest batch with nearly all of the gain.

Why it matters
--------------

A batch lasts as long as its longest response, and its last responses decode nearly alone.
An engine whose cache holds many more sequences than a batch has leaves most of the card idle.
The answers and their scores are the same, but for the random numbers of a sampled response.

When it does not apply
----------------------

A job that goes on to train, where that saves less than 3 % of a step with its share of a validation, or nobody says how many rows there are.
Where all rows are generated as one batch there is none larger.
A trainer that drops the rows that fill no batch drops other ones, and ends with an error where fewer rows are there than one batch has: that is yours to decide.

Sources
-------

verl 0.4.0 to 0.9.1 ``trainer/ppo/ray_trainer.py`` (``_create_dataloader``: ``val_batch_size``, ``_validate``).
Search-R1 at commit a14dc3a ``verl/trainer/ppo/ray_trainer.py`` (``_create_dataloader``: ``drop_last=True``, ``assert len(self.val_dataloader) >= 1``).
"""  # noqa: D415, E501 - this docstring is the page of a rule: a title without a full stop, a sentence a line

from math import ceil

from tuner.counted import counted
from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import Case
from tuner.workload import Phase, ValidationWorkload, Workload

RULE = Rule(
    code="ROL032",
    name="validation-rounds",
    summary=N_("a launch that only validates generates in many small batches"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.EXACT,
)

_NEARLY = 1.05  # times the least seconds: larger batches for less are not worth their memory


def check(case: Case) -> Finding | None:
    """Propose the most batches that take hardly longer than the fewest that are affordable."""
    workload = case.workload
    if not isinstance(workload, ValidationWorkload):
        return None
    paying = [proposal for proposal in _fewer(workload) if case.pays(proposal)]
    least = min(map(case.seconds, paying), default=0.0)
    best = next((proposal for proposal in paying if case.seconds(proposal) <= _NEARLY * least), None)
    if best is None:
        return None
    text = _(
        "{rows} of validation data are generated in {batches}, one after the other; larger ones take less"
    )
    if workload.drops_rest:
        text = _(
            "{rows} of validation data are generated in {batches}, one after the other; larger ones take "
            "less, where there are rows to fill them: those that fill none are left out"
        )
    rows, rounds = workload.batch.prompts, workload.batch.rounds
    return Finding(
        rule=RULE,
        message=text.format(rows=counted(rows, "row"), batches=counted(rounds, "batch", "batches")),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        proposal=best,
        effect=Numerics.CHANGED if workload.drops_rest else None,  # other rows are left out
    )


def _fewer(workload: Workload) -> list[Workload]:
    """The validation in half as many batches, in a quarter, and so on to one."""
    rounds, proposals = workload.batch.rounds, []
    while rounds > 1:
        rounds = ceil(rounds / 2)
        proposals.append(workload.with_batch(rounds=rounds))
    return proposals
