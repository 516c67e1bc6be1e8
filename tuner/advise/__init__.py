"""Prices what the rules propose with the model that judged the original.

Each proposal is priced alone. Those that do not help their own goal, break what fits, or cannot be
written in the trainer's keys are dropped. The rest are ranked, and combined: changes are merged one
after the other, each kept only if the job is better with it, and the rules are asked again about
the result until they have nothing to add.
"""

from collections.abc import Collection, Sequence

from tuner.advise.answer import Advice, Combination, OverrideWriter, Price, Recommendation, Verdict
from tuner.advise.combine import combine
from tuner.advise.differences import with_conflicts
from tuner.advise.pricing import rank, recommend
from tuner.advise.releases import Considered, ReleaseRange, release_range
from tuner.findings import Finding
from tuner.memory import mean_tokens_that_fit
from tuner.rules.case import Case
from tuner.workload import Workload

__all__ = [
    "Advice",
    "Combination",
    "Considered",
    "OverrideWriter",
    "Price",
    "Recommendation",
    "ReleaseRange",
    "Verdict",
    "advise",
    "release_range",
    "verdict",
]


def advise(
    workload: Workload,
    *,
    findings: Sequence[Finding],
    write_overrides: OverrideWriter,
    headroom: float,
    ignored: Collection[str] = (),
    releases: ReleaseRange | None = None,
) -> Advice:
    """Price, rank and combine what rules and checks found.

    Args:
        workload: the original.
        findings: of ``rules.run`` and of the trainer's checks, about this workload.
        write_overrides: turns a proposal into the trainer's overrides of the original; raises ValueError
            where they cannot express the difference.
        headroom: share of the card that proposals leave free.
        ignored: names of rules that must not be asked again while combining.
        releases: what the job may take where its release is not bundled.
    """
    case = Case.of(workload, headroom=headroom)
    priced = [recommend(case, finding, write_overrides) for finding in findings]
    kept = [recommendation for recommendation in priced if recommendation is not None]
    kept.sort(key=lambda recommendation: rank(case, recommendation.finding))
    mean_tokens = mean_tokens_that_fit([workload])
    return Advice(
        workload=workload,
        estimate=case.estimate,
        rollout=case.rollout,
        time=case.time,
        headroom=headroom,
        verdict=verdict(case, mean_tokens, releases),
        mean_tokens=mean_tokens,
        recommendations=with_conflicts(workload, kept),
        combination=combine(case, kept, write_overrides, ignored),
        releases=releases,
    )


def verdict(case: Case, mean_tokens: int | None, releases: ReleaseRange | None = None) -> Verdict:
    """Whether a workload fits its card, all sequences taken at their maximum length.

    The headroom is not asked: it is what proposals leave free, not what the job needs. Where the release is
    not bundled, a job fits if it does so whatever that release may do.
    """
    if not case.estimate.fits():
        return Verdict.DOES_NOT_FIT if mean_tokens is None else Verdict.FITS_WHILE_SHORT
    if releases is not None and releases.against is not None:
        return Verdict.DEPENDS_ON_RELEASE
    certain = case.estimate.fits_for_certain() and (releases is None or releases.fits_for_certain())
    return Verdict.FITS if certain else Verdict.FITS_ALONE
