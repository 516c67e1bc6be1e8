"""Whether a job fits its card: one judgement of the user's configuration and of what is advised."""

from tuner.advise.answer import Verdict
from tuner.advise.releases import ReleaseRange
from tuner.memory import mean_tokens_that_fit
from tuner.rules.case import Case


def verdict(case: Case, mean_tokens: int | None, releases: ReleaseRange | None = None) -> Verdict:
    """Whether a workload fits its card, all sequences taken at their maximum length.

    One that does not may fit while its sequences are short: unless they are known to be longer on average.
    The headroom is not asked: it is what proposals leave free, not what the job needs. Where the release is
    not bundled, a job fits if it does so whatever that release may do.
    """
    if not case.estimate.fits():
        known = case.workload.batch.known_mean_tokens
        too_long = mean_tokens is None or (known is not None and known > mean_tokens)
        return Verdict.DOES_NOT_FIT if too_long else Verdict.FITS_WHILE_SHORT
    if releases is not None and releases.against is not None:
        return Verdict.DEPENDS_ON_RELEASE
    certain = case.estimate.fits_for_certain() and (releases is None or releases.fits_for_certain())
    return Verdict.FITS if certain else Verdict.FITS_ALONE


def judged(case: Case, releases: ReleaseRange | None) -> tuple[Verdict, int | None]:
    """The verdict, and the mean sequence length that still fits; None where no length does."""
    fits = case.estimate.fits()
    mean_tokens = case.workload.batch.sequence_tokens if fits else mean_tokens_that_fit([case.workload])
    return verdict(case, mean_tokens, releases), mean_tokens
