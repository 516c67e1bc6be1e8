"""Generate beside training where responses take most of the step

What it checks
--------------

Generation takes at least half of a step and shares its GPUs with training, the release has trainers that generate on GPUs of their own, and dividing the GPUs between the two would take a fifth of the step away.
The division named is the best one: generation on some GPUs takes as long as the model says, training on the others what it takes now times all GPUs over those.
The longer of the two is the step, with the transfer of new weights behind it.

Why it matters
--------------

The last long responses of a batch keep all GPUs waiting, and more GPUs do not make them any faster.
A trainer that generates the next batch while it trains on the last one puts the others to use.

When it does not apply
----------------------

It changes the training and the launch, so nothing is there to be pasted.
Responses come from a policy that is one update old, or several, which importance weights correct for.
The figure is a bound: training that scales worse than with the number of its GPUs, or does not fit on fewer of them, and generation that waits for new weights make it less.
A model that judges responses on the trainer's GPUs keeps them there.

Sources
-------

verl documentation, "One Step Off Policy Async Trainer": 23 to 40 % faster where generation takes 70 % of a step; "Fully Async Policy Trainer"; "V1 Async Trainer".
verl 0.8.0 and later, ``experimental/one_step_off_policy`` and ``experimental/fully_async_policy``; 0.9.0 and later, ``trainer/ppo/v1/trainer_separate_async.py``.
Earlier releases have the two recipes in their repository only, not in what is installed.
"""

from msgspec import Struct

from tuner.evidence import Evidence
from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.language import N_, _
from tuner.rules.case import LEAST_GAIN_OF_ANOTHER_TRAINING, Case, figures
from tuner.rules.rollout_engine import least
from tuner.rules.wording import spent
from tuner.timing import StepTime
from tuner.workload import Phase

RULE = Rule(
    code="ROL021",
    name="generation-apart",
    summary=N_("training waits for the last responses of a batch"),
    severity=Severity.ADVICE,
    goal=Goal.TIME,
    numerics=Numerics.CHANGED,
    yours=True,
)

LEAST_SHARE = 0.5  # of the step that generation takes
_ASSUMED = N_(
    "Lengths are taken as spread evenly up to the maxima, which decides how long the last responses take"
)


class Division(Struct, frozen=True, kw_only=True):
    """GPUs that generate while the others train, and the step that it comes to at best."""

    generating: int
    seconds: float


def check(case: Case) -> Finding | None:
    """Say what generating beside training could bring, where the release has a trainer for it."""
    workload, rollout = case.workload, case.workload.generator
    judged_here = any(service.shares_gpus for service in workload.services)
    if not rollout.colocated or not rollout.apart_with or judged_here:
        return None
    generation_s = _generation_s(case.time)
    share = generation_s / case.time.seconds
    if share < LEAST_SHARE or case.short() is not None:
        return None
    best = _best(case, generation_s)
    most = case.time.seconds * (1 - LEAST_GAIN_OF_ANOTHER_TRAINING)
    if best is None or best.seconds > most:
        return None
    gpus = workload.cluster.gpus
    return Finding(
        rule=RULE,
        message=_(
            "generation takes {share:.0%} of a step of {step}; on {generating} of {gpus} GPUs, beside "
            "training on the others, a step takes {apart:.0%} of that at best"
        ).format(
            share=share,
            step=spent(case.step),
            generating=best.generating,
            gpus=gpus,
            apart=best.seconds / case.time.seconds,
        ),
        severity=RULE.severity,
        evidence=Evidence.MODELLED,
        phase=Phase.ROLLOUT,
        notes=(
            _("{release} has trainers for it: {trainers}").format(
                release=workload.release, trainers=_(", ").join(rollout.apart_with)
            ),
            _("Responses are then at least one update old, which importance weights correct for"),
            *(() if workload.batch.lengths.response_p95 is not None else (_(_ASSUMED),)),
        ),
    )


def _best(case: Case, generation_s: float) -> Division | None:
    """The division with the shortest step, None where there are too few GPUs.

    With more GPUs generation takes no longer and training no less, so it is where the two cross.
    """
    gpus, replica = case.workload.cluster.gpus, case.workload.generator.replica_gpus
    sync = case.time.phase(Phase.UPDATE_WEIGHTS)
    sync_s = 0.0 if sync is None else sync.seconds
    training_s = case.time.seconds - generation_s - sync_s

    def alone_s(generating: int) -> float:
        return _generation_s(figures(case.workload.with_rollout(gpus=generating)).time)

    def trains_longer(generating: int) -> bool:
        return alone_s(generating) <= training_s * gpus / (gpus - generating)

    candidates = range(replica, gpus, replica)
    if not candidates:
        return None
    crossing = least(candidates, trains_longer)
    last = candidates[-1] if crossing is None else crossing
    divisions = [
        Division(
            generating=generating,
            seconds=max(alone_s(generating), training_s * gpus / (gpus - generating)) + sync_s,
        )
        for generating in (last - replica, last)
        if generating in candidates
    ]
    return min(divisions, key=lambda division: division.seconds)


def _generation_s(time: StepTime) -> float:
    """Seconds in which a batch is generated."""
    generation = time.phase(Phase.ROLLOUT)
    assert generation is not None
    return generation.seconds
