"""The plan of one job on one cluster: the job that starts, its space, the search, and what is shown of it."""

from collections.abc import Callable, Iterable, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

from tuner.advise import block_of
from tuner.advise.combine import one_per_key
from tuner.advise.reading import Reading
from tuner.advise.refusals import Refusal, Started, started
from tuner.advise.usual_host import may_lack_host
from tuner.advise.verdicts import Verdict, judge_memory
from tuner.findings import Finding
from tuner.language import _
from tuner.memory import PhaseEstimate
from tuner.override_text import override_key, value_text
from tuner.plan.answer import ClusterPlan, Lacking, PlannedSetting, RefusedPart, Rejection, Shortfall, Trade
from tuner.plan.axes import Axis
from tuner.plan.judge import Candidate, Judge
from tuner.plan.layout_axes import layout_axes
from tuner.plan.legality import Legality
from tuner.plan.packages import package_gain
from tuner.plan.ranking import MOST, ranks, worth_naming
from tuner.plan.search import LARGEST_WHOLE, SearchResult, SettingSearch, Watch
from tuner.plan.shortening import shortened
from tuner.plan.space import Choice, Space, nearest, same_training, space_of
from tuner.plan.whole_models import whole_starts
from tuner.rules.case import Case, CaseFigures, figures
from tuner.rules.rollout_engine import starts
from tuner.workload import Workload


class PlanRequest(Struct, frozen=True, kw_only=True):
    """What is asked of a plan."""

    headroom: float  # share of the card that settings leave free
    held: frozenset[str] = frozenset()  # keys that nothing may change
    most: int = MOST  # settings
    largest_whole: int = LARGEST_WHOLE
    block: bool = True  # start from advice as well
    decides: bool = True  # where nothing fits, take what lifts refusals and is the user's to decide


def plan(
    reading: Reading,
    wanted: PlanRequest,
    *,
    prefix: Sequence[str] = (),
    axes: Callable[[Workload], Iterable[Axis]] | None = None,
    watch: Watch | None = None,
) -> ClusterPlan:
    """The best settings of a configuration on its cluster.

    Args:
        reading: the configuration, with the overrides before its own.
        wanted: what is asked.
        prefix: overrides that the configuration has on top of the user's, shown with every setting.
        axes: what may change; None: whatever a plan turns by itself.
        watch: told how far the search is.
    """
    start = started(reading, headroom=wanted.headroom, allow=())
    stuck = [one for one in start.refusals if wanted.held & set(map(override_key, one.overrides))]
    if stuck:  # what is held stays, so that a layout has to lift it
        start = _without(reading, start, stuck)
        if not _is_lifted(start.reading, stuck, lambda _after, _left: False, wanted.held):
            return _held_back(reading, stuck)
    own = [one for one in start.refusals if one.yours and _changes_training(reading, one.overrides)]
    if own:
        # A layout may lift what nothing else does without another training.
        without = _without(reading, start, own)
        if not wanted.decides and not _is_lifted(without.reading, own, _leaves_training, wanted.held):
            cluster = reading.workload.cluster
            return ClusterPlan(cluster=cluster, settings=(), decisions=tuple(map(_decision, own)))
        undecided = _planned(reading, without, wanted, prefix, axes, watch)
        if undecided.settings or undecided.stopped:
            return undecided
        if not wanted.decides:
            return replace(undecided, decisions=tuple(map(_decision, own)))
    answer = _planned(reading, start, wanted, prefix, axes, watch)
    return replace(answer, decisions=tuple(map(_decision, own)))


def _held_back(reading: Reading, refusals: Sequence[Refusal]) -> ClusterPlan:
    """No plan: what is held is refused, whatever else is chosen."""
    first = refusals[0]
    text = _("{message} ({code}); {lines} lifts it, and is held otherwise").format(
        message=first.finding.message, code=first.finding.rule.code, lines=", ".join(first.overrides)
    )
    return ClusterPlan(cluster=reading.workload.cluster, settings=(), unread=text)


def _without(reading: Reading, start: Started, left: Sequence[Refusal]) -> Started:
    """A configuration with what lifts refusals but for those that are left to a layout."""
    lifted = tuple(one for one in start.refusals if one not in left)
    overrides = tuple(text for one in lifted for text in one.overrides)
    return Started(reading=reading.adding(overrides) if overrides else reading, refusals=lifted, starts=False)


def _is_lifted(
    reading: Reading,
    refusals: Sequence[Refusal],
    may_stay: Callable[[Reading, Finding], bool],
    held: Set[str],
) -> bool:
    """Whether a layout lifts what refuses a job. Where none does, a search among layouts is for nothing.

    Args:
        reading: the job with what is refused.
        refusals: of which nothing else but another training, or what is held, lifts any.
        may_stay: whether a refusal that is left with a layout is lifted otherwise.
        held: keys that no layout may change.
    """
    codes = {one.finding.rule.code for one in refusals}
    for value in (value for one in layout_axes(reading.workload) for value in one.values):
        try:
            overrides = reading.write(value.workload).overrides
            after = reading.adding(overrides)
        except ValueError:
            continue
        if held & set(map(override_key, overrides)):
            continue
        left = (one for one in after.findings if one.refuses and one.rule.code in codes)
        if all(may_stay(after, one) for one in left):
            return True
    return False


def _leaves_training(reading: Reading, finding: Finding) -> bool:
    return not _changes_training(reading, finding.overrides)


def _changes_training(reading: Reading, overrides: Sequence[str]) -> bool:
    """Whether overrides make another training, and not only other passes over the same."""
    if not overrides:
        return False
    try:
        after = reading.adding(overrides)
    except ValueError:
        return True
    return not same_training(reading.workload, after.workload)


def _decision(refusal: Refusal) -> RefusedPart:
    values = tuple((override_key(text), value_text(text)) for text in refusal.overrides)
    return RefusedPart(code=refusal.finding.rule.code, message=refusal.finding.message, values=values)


def _planned(
    reading: Reading,
    start: Started,
    wanted: PlanRequest,
    prefix: Sequence[str],
    axes: Callable[[Workload], Iterable[Axis]] | None,
    watch: Watch | None,
) -> ClusterPlan:
    base = start.reading
    space = space_of(base, axes=None if axes is None else tuple(axes(base.workload)), held=wanted.held)
    legality = Legality(base, space)
    search = SettingSearch(space, legality, headroom=wanted.headroom, most=wanted.most, watch=watch)
    known = list(_known_settings(start, space, wanted))
    for setting in known:
        search.hold(setting)
    starts = [*(setting.choice for setting in known), *whole_starts(base, space, wanted.headroom)]
    result = search.run(starts, largest_whole=wanted.largest_whole)
    judge = Judge(wanted.headroom)
    short = _unique(shortened(one, space, legality, judge, known) for one in result.best)
    lifted = tuple(text for one in start.refusals for text in one.overrides)
    confirmed = worth_naming([one for one in short if _is_confirmed(one, reading, lifted)])
    answer = _answer(result, confirmed, (*prefix, *lifted), judge)
    if not confirmed:
        return answer
    gain = package_gain(confirmed[0], base, judge, wanted.headroom)
    first = replace(answer.settings[0], with_package=gain)
    return replace(answer, settings=(first, *answer.settings[1:]))


def _is_confirmed(setting: Candidate, reading: Reading, lifted: Sequence[str]) -> bool:
    """Whether the lines that are shown make the job that was judged, which fits whatever its release is."""
    lines = one_per_key((*lifted, *(setting.overrides or ())))
    try:
        after = reading.adding(lines) if lines else reading
    except ValueError:
        return False
    case = Case.of(after.workload, headroom=0.0)
    same = after.workload == setting.workload and not any(
        one.refuses and not one.set_aside for one in after.findings
    )
    return same and judge_memory(case, after.releases).verdict is Verdict.FITS


def _known_settings(start: Started, space: Space, wanted: PlanRequest) -> Iterable[Candidate]:
    """The job as it is and what advice makes of it, where they start and fit for certain."""
    if not start.starts:
        return
    reading = start.reading
    yield from _fitting(space.unchanged, reading.workload, ())
    if wanted.block:
        block = block_of(reading, headroom=wanted.headroom)
        keys = set() if block is None else set(map(override_key, block.overrides))
        if block is not None and not keys & wanted.held:
            yield from _fitting(nearest(space, block.workload), block.workload, block.overrides)


def _fitting(choice: Choice, workload: Workload, overrides: tuple[str, ...]) -> Iterable[Candidate]:
    made = figures(workload)
    lacks_host = may_lack_host(made.estimate, workload.cluster.gpus_per_node)
    if made.estimate.fits_for_certain() and starts(workload) and not lacks_host:
        yield Candidate(choice=choice, workload=workload, figures=made, overrides=overrides)


def _unique(settings: Iterable[Candidate]) -> list[Candidate]:
    """Settings without those that came to the same job, the fastest first."""
    jobs = {setting.workload: setting for setting in settings}
    return sorted(jobs.values(), key=lambda one: one.seconds)


def _answer(
    result: SearchResult, settings: Sequence[Candidate], lifted: Sequence[str], judge: Judge
) -> ClusterPlan:
    return ClusterPlan(
        cluster=result.space.base.cluster,
        settings=tuple(
            PlannedSetting(
                rank=rank,
                overrides=one_per_key((*lifted, *(setting.overrides or ()))),
                workload=setting.workload,
                estimate=setting.figures.estimate,
                time=setting.figures.time,
                own=not setting.overrides,
            )
            for rank, setting in zip(ranks(settings), settings, strict=True)
        ),
        trades=tuple(
            Trade(
                seconds=one.seconds,
                peak_bytes=one.peak_bytes,
                overrides=one_per_key((*lifted, *(one.overrides or ()))),
            )
            for one in result.pareto
        ),
        looked_at=result.looked_at,
        size=result.space.size,
        whole=result.whole,
        stopped=result.stopped,
        rejected=tuple(
            Rejection(constraint=name, settings=number)
            for name, number in sorted(result.rejected.items(), key=lambda item: -item[1])
        ),
        refused=tuple(
            RefusedPart(
                code=one.reason,
                message=one.message,
                values=tuple(
                    (result.space.axes[place].name, result.space.axes[place].options[number].text)
                    for place, number in one.options
                ),
            )
            for one in result.refused
        ),
        lacking=None if settings else _lacking(result, judge),
    )


def _lacking(result: SearchResult, judge: Judge) -> Lacking | None:
    """What the setting that comes nearest lacks."""
    if result.nearest is None:
        return None
    workload = result.space.workload(result.nearest)
    made = CaseFigures(workload)

    def missing(phase: PhaseEstimate) -> int:
        return judge.missing_bytes(workload, phase)

    worst = max(made.memory.all_phases, key=missing, default=None)
    over = 0 if worst is None else missing(worst)
    return Lacking(
        phase=worst.phase if worst is not None and over else None,
        missing_bytes=over,
        problems=(*made.estimate.problems, *made.estimate.doubts),
        estimate=made.estimate,
        workload=workload,
        everywhere=tuple(
            Shortfall(phase=phase, missing_bytes=least) for phase, least in result.everywhere.items() if least
        ),
    )
