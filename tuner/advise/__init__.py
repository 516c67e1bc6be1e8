"""Prices what the rules propose with the model that judged the original.

First what the trainer or its engine refuses is lifted: everything else is said of the job that starts.
Each proposal is priced alone, as the trainer reads its overrides. Those that do not help their own goal,
break what fits, or cannot be written in the trainer's keys are dropped; what changes the training is left
to the user. The rest are ranked, and combined into one block, which is judged as it is read back.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tuner import rules
from tuner.advise.acceptance import Acceptance
from tuner.advise.additions import additions
from tuner.advise.answer import (
    Addition,
    Advice,
    CheapestRun,
    Combination,
    Contribution,
    Nearest,
    Price,
    Recommendation,
    Unsure,
    Withheld,
    Without,
)
from tuner.advise.as_assumed import share_as_assumed
from tuner.advise.combine import cheapest_run, combine
from tuner.advise.differences import with_conflicts
from tuner.advise.pricing import Cheapest, rank, recommend
from tuner.advise.reading import Considered, Reading, ReleaseRange, release_range
from tuner.advise.refusals import Refusal, Started, started, verdict_of_start
from tuner.advise.verdicts import Condition, Judgement, Verdict, judge_memory, judgement
from tuner.findings import Finding, Numerics, Written
from tuner.rules.case import LEAST_GAIN, LEAST_GAIN_OF_ANOTHER_TRAINING, Case
from tuner.rules.rollout_engine import starts

__all__ = [
    "Addition",
    "Advice",
    "CheapestRun",
    "Combination",
    "Condition",
    "Considered",
    "Contribution",
    "Judgement",
    "Price",
    "Reading",
    "Recommendation",
    "Refusal",
    "ReleaseRange",
    "Verdict",
    "Withheld",
    "Without",
    "Written",
    "advise",
    "block_of",
    "judgement",
    "release_range",
]


def advise(
    reading: Reading,
    *,
    headroom: float,
    allow: Collection[Numerics] = (),
    least_gain: float = LEAST_GAIN,
    block: bool = True,
) -> Advice:
    """Judge a configuration, and price, rank and combine what rules and checks say of it.

    Args:
        reading: the configuration.
        headroom: share of the card that proposals leave free.
        allow: effects on the training that may be part of what is to be pasted.
        least_gain: share of the step that a line of it has to bring, unless the job needs it.
        block: whether what is to be pasted is wanted; a list of findings has prices, in their own order, and
            does without.
    """
    weighed = _weighed(reading, headroom=headroom, allow=allow, least_gain=least_gain, block=block)
    start, case, cheapest, acceptance = weighed.start, weighed.case, weighed.cheapest, weighed.acceptance
    job, of_memory, runs, standing = start.reading, weighed.of_memory, weighed.runs, weighed.standing
    modelled, recommendations, combination = weighed.modelled, weighed.recommendations, weighed.combination
    stopping = [
        Recommendation(
            finding=refusal.finding,
            overrides=refusal.overrides,
            workload=None,
            price=None,
            numerics=refusal.numerics,
            yours=refusal.yours,
        )
        for refusal in start.refusals
    ]
    apart = block and modelled and (combination is None or _is_dear(combination, cheapest))
    # what may be tried goes on top of a block, with which the job fits, or of a job that runs as it is
    settled = block and modelled and (combination is not None or (runs and not start.refusals))
    reweighted = (
        _if_reweighted(
            start,
            case,
            recommendations,
            cheapest,
            acceptance,
            fits=of_memory.verdict is Verdict.FITS,
            instead_of=combination,
        )
        if apart
        else None
    )
    too_large = apart and combination is None and reweighted is None and not case.estimate.fits_for_certain()
    too_large = too_large and start.starts and not case.workload.added_models
    return Advice(
        workload=case.workload,
        estimate=case.estimate,
        rollout=None if job.workload.rollout is None else case.rollout,
        time=case.time,
        headroom=headroom,
        least_gain=least_gain,
        verdict=verdict_of_start(start.refusals, of_memory.verdict),
        memory_verdict=of_memory.verdict,
        memory_condition=of_memory.condition,
        mean_tokens=of_memory.mean_tokens,
        refusals=start.refusals,
        recommendations=(
            *stopping,
            *(with_conflicts(case.workload, recommendations) if block else recommendations),
        ),
        combination=combination,
        withheld=_withheld(case, standing, job) if weighed.lacking else (),
        additions=tuple(additions(start, case, combination, acceptance)) if block and modelled else (),
        if_reweighted=reweighted,
        nearest=_nearest(case, recommendations, job, acceptance) if too_large else None,
        share_as_assumed=_share_as_assumed(case, combination, least_gain)
        if block and modelled and runs
        else None,
        unsure=_unsure(case, job, combination, acceptance) if settled else None,
        cheapest=None if cheapest is None else _seconds_of(cheapest),
        releases=job.releases,
    )


def block_of(reading: Reading, *, headroom: float) -> Combination | None:
    """The block that advice has for a configuration, without all that an answer says beside it."""
    return _weighed(reading, headroom=headroom, allow=(), least_gain=LEAST_GAIN, block=True).combination


class _Weighed(Struct, frozen=True, kw_only=True):
    """What is said of a configuration, priced, and the block that it comes to."""

    start: Started
    case: Case
    of_memory: Judgement
    standing: Sequence[Finding]
    runs: bool
    modelled: bool  # else no step has all its bytes and seconds
    cheapest: Cheapest | None
    lacking: bool  # what cannot be proposed as it stands
    recommendations: Sequence[Recommendation]
    acceptance: Acceptance
    combination: Combination | None


def _weighed(
    reading: Reading, *, headroom: float, allow: Collection[Numerics], least_gain: float, block: bool
) -> _Weighed:
    start = started(reading, headroom=headroom, allow=allow)
    job = start.reading
    case = Case.of(job.workload, headroom=headroom)
    of_memory = judge_memory(case, job.releases)
    standing = [finding for finding in (*job.findings, *rules.run(case)) if not finding.refuses]
    runs = start.starts and of_memory.is_expected_to_fit and starts(job.workload)
    modelled = not job.workload.unmodelled_engine
    cheapest = cheapest_run(case, standing, runs=runs) if modelled and start.starts else None
    priced = [recommend(case, finding, job, cheapest=cheapest, allow=allow) for finding in standing]
    recommendations = [recommendation for recommendation in priced if recommendation is not None]
    if block:
        recommendations.sort(key=lambda item: rank(case, item.finding, item.workload))
    barred = frozenset(item.finding.code for item in recommendations if item.depends_on_release)
    acceptance = Acceptance(
        allow=allow, least_gain=least_gain, barred=barred, elsewhere=job.averages_elsewhere
    )
    combination = (
        combine(start, case, recommendations, cheapest=cheapest, acceptance=acceptance)
        if block and modelled
        else None
    )
    return _Weighed(
        start=start,
        case=case,
        of_memory=of_memory,
        standing=standing,
        runs=runs,
        modelled=modelled,
        cheapest=cheapest,
        lacking=any(item is None for item in priced),
        recommendations=recommendations,
        acceptance=acceptance,
        combination=combination,
    )


def _withheld(case: Case, findings: Sequence[Finding], reading: Reading) -> tuple[Withheld, ...]:
    from tuner.advise.withheld import withheld  # where something cannot be proposed

    return withheld(case, findings, reading)


def _unsure(
    case: Case, reading: Reading, combination: Combination | None, acceptance: Acceptance
) -> Unsure | None:
    """What may be tried beside the block, or where nothing is to be pasted."""
    from tuner.advise.unsure import unsure  # an answer that lists findings does without

    if combination is not None:
        reading, case = reading.adding(combination.overrides), case.with_workload(combination.workload)
    return unsure(case, reading, acceptance)


def _nearest(
    case: Case, recommendations: Sequence[Recommendation], reading: Reading, acceptance: Acceptance
) -> Nearest | None:
    from tuner.advise.nearest import nearest  # a few jobs are so large

    return nearest(case, recommendations, reading, acceptance)


def _share_as_assumed(case: Case, combination: Combination | None, least_gain: float) -> float | None:
    """What is withheld from the job with its block where there is one, else from the job as it is."""
    job = case if combination is None else case.with_workload(combination.workload)
    return share_as_assumed(job, least_gain)


def _seconds_of(cheapest: Cheapest) -> CheapestRun:
    step = cheapest.case.step
    return CheapestRun(seconds=step.seconds, rules=cheapest.rules, low_s=step.low_s, high_s=step.high_s)


def _is_dear(combination: Combination, cheapest: Cheapest | None) -> bool:
    """Whether a block makes a job fit at far more seconds than some form needs that trains otherwise."""
    if cheapest is None or not cheapest.rules:
        return False
    return combination.time.seconds * (1 - LEAST_GAIN_OF_ANOTHER_TRAINING) > cheapest.case.time.seconds


def _if_reweighted(
    start: Started,
    case: Case,
    recommendations: Sequence[Recommendation],
    cheapest: Cheapest | None,
    acceptance: Acceptance,
    *,
    fits: bool,
    instead_of: Combination | None,
) -> Combination | None:
    """The block that could be offered if tokens may weigh otherwise; None where that makes no difference.

    One that makes room in a job which ``fits`` may cost more seconds than it saves: that is no difference.
    Instead of another block it has to be faster by what is asked of all that changes the training.
    """
    if Numerics.REWEIGHTED in acceptance.allow:
        return None
    if instead_of is None and all(item.numerics is not Numerics.REWEIGHTED for item in recommendations):
        return None
    wider = replace(acceptance, allow={*acceptance.allow, Numerics.REWEIGHTED})
    other = combine(start, case, recommendations, cheapest=cheapest, acceptance=wider)
    if other is None or (fits and other.time.seconds >= case.time.seconds):
        return None
    if instead_of is not None:
        most = instead_of.time.seconds * (1 - LEAST_GAIN_OF_ANOTHER_TRAINING)
        return other if other.time.seconds <= most else None
    return other
