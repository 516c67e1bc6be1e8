"""The advice on a job with a size that only a run of its script tells: it fits up to some value of that.

A default stands in for such a size, and with it the job may fit by chance: what the script computes may be
several times as much.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from tuner.advise import Advice, Condition, Verdict
from tuner.consultation.job import JobReading
from tuner.language import _
from tuner.memory import Estimate
from tuner.memory.fitting.limits import Fitting, values_that_fit
from tuner.workload import Workload

_TIMES = 8  # the value taken: up to so much more of it nobody need be told


def advice_with_open_sizes(advice: Advice, job: JobReading) -> Advice:
    """The advice, doubtful where a job that fits does so only up to some value of a size that is open."""
    if advice.memory_verdict is not Verdict.FITS:
        return advice
    doubts = tuple(_doubts(advice.workload, job))
    if not doubts:
        return advice
    together = advice.combination
    if together is not None and together.verdict is Verdict.FITS:
        left = tuple(_doubts(together.workload, job))
        together = replace(
            together,
            verdict=Verdict.MAY_NOT_FIT if left else together.verdict,
            estimate=_with_doubts(together.estimate, left),
        )
    return replace(
        advice,
        estimate=_with_doubts(advice.estimate, doubts),
        verdict=Verdict.MAY_NOT_FIT if advice.verdict is Verdict.FITS else advice.verdict,
        memory_verdict=Verdict.MAY_NOT_FIT,
        memory_condition=Condition.DOUBT,
        combination=together,
    )


def _with_doubts(estimate: Estimate, doubts: tuple[str, ...]) -> Estimate:
    return replace(estimate, doubts=(*doubts, *estimate.doubts))


def _doubts(workload: Workload, job: JobReading) -> Iterator[str]:
    """Each open size that decides whether a job fits, with the value up to which it does."""
    opened = {argument.key for argument in job.given.unsettled}
    defaults = {name: value for name, value in job.loaded.resting_on_defaults(workload) if name in opened}
    for name, quantity in job.loaded.quantities(defaults).items():
        value = defaults[name]
        if isinstance(value, bool) or not isinstance(value, int):
            continue
        limit = _limit(values_that_fit(workload, quantity))
        if limit is not None and limit < _TIMES * value:
            yield _(
                "{key}={value} is taken in place of what only a run of the script tells: it fits up to "
                "{limit:,}"
            ).format(key=name, value=value, limit=int(limit))


def _limit(fitting: Fitting) -> float | None:
    """The largest value that surely fits; None where every one does, or the setting is no size."""
    limit = fitting.high if fitting.certain is None else fitting.certain
    return None if limit is None or limit >= fitting.most else limit
