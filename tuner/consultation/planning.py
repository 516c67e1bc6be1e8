"""What ``tuner plan`` answers: a job read for every cluster that is asked about, and planned on each."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated

from msgspec import Meta, Struct

from tuner.consultation.consult import job_of, steps_of
from tuner.consultation.given_words import GivenWords
from tuner.consultation.job import JobReading
from tuner.consultation.longest_responses import LayoutReach, longest_responses
from tuner.consultation.placement import PlacementPlan, expect_colocated, placements_named
from tuner.consultation.planned_clusters import (
    ClusterQuestion,
    Clusters,
    OnMore,
    PlannedCluster,
    PlannedJob,
    Watch,
    largest_premises,
    main_job,
    on_more,
    planned_by_strategy,
    planned_on,
    undivided_words,
    unheld,
    without_number,
)
from tuner.consultation.planned_everywhere import planned_everywhere
from tuner.consultation.premises import Premises
from tuner.consultation.relaxing import on_whole_nodes, relaxations_of
from tuner.consultation.strategies import as_it_is, strategies_named
from tuner.consultation.until_stopped import UntilStopped
from tuner.errors import InputError, TunerError
from tuner.files import files_unchanged
from tuner.gpus import find_gpu
from tuner.hardware import Cluster
from tuner.language import _
from tuner.other_base import OtherBase
from tuner.override_text import override_key
from tuner.plan.answer import ClusterPlan
from tuner.plan.capacity import CapacityRow, PlacedSetting, capacity, fewest
from tuner.plan.corrections import MeasuredPlan
from tuner.plan.gpus import which_gpus
from tuner.plan.planning import PlanRequest
from tuner.plan.reasons import Relaxation
from tuner.plan.trade_off import TradePoint, trade_off

_MOST_VARIANTS = 16


class Variant(Struct, frozen=True, kw_only=True):
    """The plan with other values of settings that a plan leaves alone by itself."""

    overrides: tuple[str, ...]
    plan: ClusterPlan
    steps: Annotated[int | None, Meta(description="of the whole job then; null where nobody says")]
    needs: Annotated[
        OtherBase | None, Meta(description="beside the lines, to start it; null where they are enough")
    ] = None


class PlanAnswer(Struct, frozen=True, kw_only=True):
    """The plan on the cards that there are, and the same over numbers and cards."""

    job: JobReading
    asked: GivenWords
    premises: Premises
    plan: ClusterPlan
    rows: tuple[CapacityRow, ...]
    relaxations: tuple[Relaxation, ...]  # with which the setting that comes nearest would fit
    more: ClusterPlan | None  # on more GPUs, or larger cards, where it fits on none that were asked about
    most_in_vain: Cluster | None  # the most GPUs of its card on which it was planned and fits on none
    steps: int | None  # of the whole job, where something says it
    prices: Mapping[str, float]  # of a GPU-hour, by the card's name
    held: tuple[str, ...]
    variants: tuple[Variant, ...] = ()
    longest: tuple[LayoutReach, ...] = ()  # where it was asked for
    placements: tuple[PlacementPlan, ...] = ()  # cluster by cluster, beginning with that of the plan
    stopped: bool = False  # by the user, before all that was asked for had been planned
    corrections: MeasuredPlan | None = None  # by what was measured, where that was asked for

    @property
    def fewest(self) -> CapacityRow | None:
        """The fewest GPUs on which the job fits for certain, where it is or elsewhere."""
        return fewest(self.rows)

    @property
    def trade_off(self) -> tuple[TradePoint, ...]:
        """What there is to choose from over numbers, cards and placements, the fastest first."""
        return trade_off(self.rows, self.prices)

    def placements_on(self, cluster: Cluster) -> tuple[PlacementPlan, ...]:
        """The placements that were planned on a cluster, in the order in which they are asked for."""
        return tuple(one for one in self.placements if which_gpus(one.cluster) == which_gpus(cluster))

    def placed_best(self, row: CapacityRow) -> PlacementPlan | None:
        """The placement that is fastest on a cluster; None where the job is that as it is."""
        named = (one for one in self.placements_on(row.cluster) if one.placement.value == row.placement)
        return next(named, None)


@files_unchanged()
def plan_answer(
    source: str,
    words: Sequence[str],
    premises: Premises,
    clusters: Clusters,
    *,
    prices: Mapping[str, float],
    held: Sequence[str] = (),
    varied: Sequence[str] = (),
    longest: bool = False,
    watch: Watch | None = None,
    processes: int = 1,
) -> PlanAnswer:
    """Plan a job on the cards that there are, and on fewer or others.

    Args:
        source: a file, ``-`` for standard input, or the first word of a pasted command.
        words: what follows it.
        premises: what is said beside the configuration.
        clusters: the cards and their numbers.
        prices: of a GPU-hour, by what the option calls the card.
        held: keys that stay, or ``KEY=VALUE`` for those that are set and stay.
        longest: whether to say how long responses may get.
        varied: ``KEY=A,B,C`` for keys that a plan leaves alone by itself: every combination is planned. Under
            the name ``placement`` it has placements, each of which is planned of the job as it is, and under
            the name ``strategy`` strategies of the trainer's engine, which are planned as one.
        watch: told how far the search of a cluster is.
        processes: in which other clusters and placements are planned at most.

    Raises:
        TunerError: something in the configuration or the premises cannot be used.
    """
    given = tuple(text for text in held if "=" in text)
    words = (*words, *given)
    keys = frozenset(map(override_key, held))
    job, main, before = main_job(source, words, premises, clusters, keys)
    _expect_plannable(job)
    _expect_keys(job, held)
    priced = _by_card(prices, clusters, job)
    places, varied = placements_named(varied)
    strategies, varied = strategies_named(varied)
    expect_colocated(job, places)
    combinations = _combinations(varied)
    wanted = PlanRequest(headroom=premises.headroom, held=keys)
    undivided = unheld(undivided_words(job), keys)
    asked = ClusterQuestion(
        source=source,
        words=words,
        premises=premises,
        wanted=wanted,
        watch=watch,
        given=given,
        undivided=(*before, *undivided),
        strategies=strategies,
    )
    best = planned_by_strategy(asked, job, main, before)
    own = as_it_is(best)
    until = UntilStopped(stopped=best.stopped)
    main_one = PlannedJob(read=job, premises=main, before=before)
    here = PlannedCluster(plan=best, job=main_one)
    others, placed = planned_everywhere(asked, clusters, here, places, until, processes=processes)
    rows = capacity((best, *others), map(_placed_setting, placed))
    fits = any(row.best for row in rows)
    larger = () if fits else until.all(_on_more(asked, clusters, job), ends=lambda one: one.stopped)
    vain = [one for one in larger if one.plan is None]
    others_fit = until.all(on_whole_nodes(asked, best.cluster) if vain else ())
    more = [one.plan for one in larger if one.plan is not None] + [one for one in others_fit if one.settings]
    variants = until.all(_variants(asked, main, before, combinations, job), ends=lambda one: one.plan.stopped)
    reach = until.all(_longest(job, own, premises.headroom, before)) if longest else ()
    return PlanAnswer(
        job=job,
        asked=GivenWords(source=source, words=words, premises=largest_premises(premises, clusters)),
        premises=main,
        plan=best,
        rows=rows,
        relaxations=relaxations_of(best, asked, main_one, anew=not fits and not until.stopped),
        more=more[0] if more else None,
        most_in_vain=vain[0].most if vain else None,
        steps=steps_of(job.loaded, premises.data_rows),
        prices=priced,
        held=tuple(held),
        variants=variants,
        longest=reach,
        placements=placed,
        stopped=until.stopped,
    )


def _placed_setting(plan: PlacementPlan) -> tuple[Cluster, PlacedSetting | None]:
    """A placement as a row has it; None of what does not fit, and of the job where it is."""
    if plan.setting is None or plan.split is None:
        return plan.cluster, None
    return plan.cluster, PlacedSetting(placement=plan.placement.value, setting=plan.setting)


def _on_more(asked: ClusterQuestion, clusters: Clusters, job: JobReading) -> Iterator[OnMore]:
    yield on_more(asked, clusters, job)


def _longest(
    job: JobReading, best: ClusterPlan, headroom: float, before: tuple[str, ...]
) -> Iterator[LayoutReach]:
    yield from longest_responses(job.reading, best, headroom=headroom, before=before)


def _expect_plannable(job: JobReading) -> None:
    """Refuse what no plan can be made of.

    Raises:
        InputError: settings are missing, nothing is trained, or the trainer's engine is not modelled.
    """
    if job.given.missing is not None:
        raise InputError(
            _("settings of this job stand in a file that is not here: no plan can be made without them")
        )
    if job.loaded.validates_only:
        raise InputError(_("the launch ends before its first update: there is no training to plan"))
    engine = job.reading.workload.unmodelled_engine
    if engine:
        raise InputError(_("what {engine} takes is not modelled: no plan can be made").format(engine=engine))


def _expect_keys(job: JobReading, held: Sequence[str]) -> None:
    """Refuse keys that no setting could have changed: they are misspelt, or of another program.

    Raises:
        InputError: there is one.
    """
    for key in map(override_key, held):
        if not job.loaded.settings.takes(key):
            raise InputError(_("--hold {key}: the configuration has no such key").format(key=key))


def _expect_varied(job: JobReading, varied: JobReading, overrides: Sequence[str]) -> None:
    """Refuse keys that neither a job nor what is varied of it has: every value would make the same plan.

    Raises:
        InputError: there is one.
    """
    for key in map(override_key, overrides):
        if not (job.loaded.settings.takes(key) or varied.loaded.settings.knows(key)):
            raise InputError(_("--vary {key}: the configuration has no such key").format(key=key))


def _combinations(varied: Sequence[str]) -> list[tuple[str, ...]]:
    """Every combination of values of varied keys.

    Raises:
        InputError: a key has no values, or there are more combinations than anybody waits for.
    """
    axes = []
    for text in varied:
        key, equals, values = text.partition("=")
        named = [value.strip() for value in values.split(",")]
        if not key or not equals or not all(named):
            raise InputError(_("--vary {text}: expected KEY=VALUE,VALUE,...").format(text=text))
        axes.append([f"{key}={value}" for value in named])
    combinations = list(product(*axes)) if axes else []
    if len(combinations) > _MOST_VARIANTS:
        raise InputError(
            _("--vary: {count} combinations are more than the {most} that are planned at a time").format(
                count=len(combinations), most=_MOST_VARIANTS
            )
        )
    return combinations


def _variants(
    asked: ClusterQuestion,
    premises: Premises,
    before: Sequence[str],
    combinations: Sequence[tuple[str, ...]],
    job: JobReading,
) -> Iterator[Variant]:
    """The plan of every combination, on the GPUs that there are.

    Raises:
        TunerError: no combination can be read.
    """
    unread = 0
    for overrides in combinations:
        words = (*before, *overrides)
        try:
            varied, _said = job_of(asked.source, (*asked.words, *words), premises)
            _expect_plannable(varied)
            _expect_varied(job, varied, overrides)
        except TunerError as error:
            unread += 1
            if unread == len(combinations):
                raise
            nowhere = ClusterPlan(cluster=job.reading.workload.cluster, settings=(), unread=str(error))
            yield Variant(overrides=overrides, plan=nowhere, steps=None)
            continue
        planned = planned_on(varied, asked.wanted, asked.watch, (*asked.given, *words))
        needs = job.loaded.trainer.other_base(job.loaded, varied.loaded, job.given.program)
        steps = steps_of(varied.loaded, asked.premises.data_rows)
        yield Variant(overrides=overrides, plan=planned, steps=steps, needs=needs)
        if planned.stopped:
            return


def _by_card(prices: Mapping[str, float], clusters: Clusters, job: JobReading) -> dict[str, float]:
    """Prices by the names of the cards that there are.

    Raises:
        InputError: one is for another card.
    """
    named = {find_gpu(card).name: price for card, price in prices.items()}
    cards = {find_gpu(without_number(card)).name for card in clusters.cards if card is not None}
    for card in named:
        if card not in cards | {job.reading.workload.cluster.gpu.name}:
            raise InputError(_("--price {card}: no plan is for this card").format(card=card))
    return named
