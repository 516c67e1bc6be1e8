"""A search of a small space against every setting of it, each priced as advice prices one."""

import pytest

from tests.plan import jobs
from tests.plan.jobs import HEADROOM, JOBS, THOUSANDS, SmallJob
from tuner.advise import advise
from tuner.advise.usual_host import may_lack_host
from tuner.advise.verdicts import Verdict
from tuner.plan.judge import Judge
from tuner.plan.pareto import unbeaten
from tuner.rules.case import Case, CaseFigures

pytestmark = pytest.mark.sampled(5)

SEARCHED = (*THOUSANDS, JOBS[-1])
ALL = pytest.mark.parametrize("job", SEARCHED, ids=lambda job: job.name)
ASKED = 24  # settings of each job that advice itself is asked about


@ALL
def test_there_is_something_to_choose(job: SmallJob) -> None:
    settings, size, legal = jobs.priced(job), jobs.space(job).size, len(jobs.legal_choices(job))
    assert 1000 <= size <= 1500 if job in THOUSANDS else size > 100
    assert len({round(one.seconds, 6) for one in settings}) > 5
    assert len(settings) < legal < size


@ALL
def test_the_best_is_the_best(job: SmallJob) -> None:
    result, _ = jobs.search(job)
    assert result.whole and result.looked_at == jobs.space(job).size
    best = min(jobs.priced(job), key=lambda one: one.seconds)
    assert result.best[0].seconds == best.seconds


@ALL
def test_the_best_of_each_layout_is_the_best_of_it(job: SmallJob) -> None:
    result, _ = jobs.search(job, most=1000)
    space = jobs.space(job)
    least: dict[tuple[int, ...], float] = {}
    for one in jobs.priced(job):
        layout = space.layout(one.choice)
        least[layout] = min(one.seconds, least.get(layout, one.seconds))
    assert {space.layout(one.choice): one.seconds for one in result.best} == least


@ALL
def test_the_trades_are_the_pareto_set(job: SmallJob) -> None:
    result, _ = jobs.search(job)
    points = {(one.seconds, one.peak_bytes) for one in jobs.priced(job)}
    unbeaten = {
        (seconds, peak)
        for seconds, peak in points
        if not any(s <= seconds and p <= peak and (s, p) != (seconds, peak) for s, p in points)
    }
    assert {(one.seconds, one.peak_bytes) for one in result.pareto} == unbeaten


@ALL
def test_what_a_table_calls_unbeaten_is_what_a_search_keeps(job: SmallJob) -> None:
    result, _ = jobs.search(job)
    points = [(one.seconds, one.peak_bytes) for one in jobs.priced(job)]
    kept = {point for point, best in zip(points, unbeaten(points), strict=True) if best}
    assert kept == {(one.seconds, one.peak_bytes) for one in result.pareto}


@ALL
def test_nothing_legal_is_left_out(job: SmallJob) -> None:
    """What a search learns of refusals holds of no setting that the trainer takes."""
    _, legality = jobs.search(job)
    wrongly = [choice for choice in jobs.legal_choices(job) if legality.refusal(choice) is not None]
    assert wrongly == []


@ALL
def test_every_legal_setting_is_judged_as_advice_judges_it(job: SmallJob) -> None:
    """Spread over all of them: its seconds, its peak, and whether it is sure to fit."""
    reading, space, judge = jobs.reading_of(job), jobs.space(job), Judge(HEADROOM)
    legal = jobs.legal_choices(job)
    for choice in legal[:: max(1, len(legal) // ASKED)]:
        wanted = space.workload(choice)
        written = reading.write(wanted).overrides
        after = reading.adding(written) if written else reading
        advice, figures = advise(after, headroom=HEADROOM, block=False), CaseFigures(after.workload)
        lacks_host = may_lack_host(advice.estimate, advice.workload.cluster.gpus_per_node)
        fits = advice.memory_verdict is Verdict.FITS and not lacks_host and not advice.refusals
        fits = fits and Case.of(after.workload, headroom=HEADROOM).short() is None  # as its own proposals
        assert (judge.failing(after.workload, figures) is None) == fits, written
        assert figures.estimate.worst.peak_bytes == advice.estimate.worst.peak_bytes
        assert figures.time.seconds == advice.time.seconds
        assert (choice in {one.choice for one in jobs.priced(job)}) == fits


@ALL
def test_what_is_shown_is_what_was_judged(job: SmallJob) -> None:
    result, _ = jobs.search(job)
    reading = jobs.reading_of(job)
    for setting in result.best:
        assert setting.overrides is not None
        after = reading.adding(setting.overrides) if setting.overrides else reading
        assert after.workload == setting.workload
