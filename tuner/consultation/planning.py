"""What ``tuner plan`` answers: a job read for every cluster that is asked about, and planned on each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from tuner.consultation.cluster import choose_card
from tuner.consultation.consult import job_of, steps_of
from tuner.consultation.given_words import GivenWords
from tuner.consultation.job import JobReading
from tuner.consultation.longest_responses import LayoutReach, longest_responses
from tuner.consultation.placement import (
    PlacementPlan,
    Planner,
    expect_colocated,
    placement_plans,
    placements_named,
)
from tuner.consultation.premises import Premises
from tuner.errors import InputError, TunerError
from tuner.gpus import counted, find_gpu, gpu_names
from tuner.hardware import Cluster
from tuner.language import _
from tuner.override_text import override_key
from tuner.plan.answer import ClusterPlan
from tuner.plan.capacity import CapacityRow, capacity, fewest
from tuner.plan.corrections import MeasuredPlan
from tuner.plan.layout_axes import undivided
from tuner.plan.planning import PlanRequest, plan
from tuner.plan.reasons import Relaxation, relaxations
from tuner.plan.search import SearchProgress
from tuner.plan.trade_off import TradePoint, trade_off

_MOST_VARIANTS = 16
_DOUBLINGS = 4  # of the nodes, where a job fits on none that were asked about

Watch = Callable[[Cluster, SearchProgress], None]


class Clusters(Struct, frozen=True, kw_only=True):
    """The GPUs that a plan may be for; None leaves the number to the configuration."""

    cards: tuple[str | None, ...] = (None,)
    nodes: tuple[int, ...] | None = None
    gpus_per_node: tuple[int, ...] | None = None


class Variant(Struct, frozen=True, kw_only=True):
    """The plan with other values of settings that a plan leaves alone by itself."""

    overrides: tuple[str, ...]
    plan: ClusterPlan
    steps: Annotated[int | None, Meta(description="of the whole job then; null where nobody says")]


class PlanAnswer(Struct, frozen=True, kw_only=True):
    """The plan on the cards that there are, and the same over numbers and cards."""

    job: JobReading
    asked: GivenWords
    premises: Premises
    plan: ClusterPlan
    rows: tuple[CapacityRow, ...]
    relaxations: tuple[Relaxation, ...]  # with which the setting that comes nearest would fit
    more: ClusterPlan | None  # on more GPUs than were asked about, where it fits on none of these
    steps: int | None  # of the whole job, where something says it
    prices: Mapping[str, float]  # of a GPU-hour, by the card's name
    held: tuple[str, ...]
    variants: tuple[Variant, ...] = ()
    longest: tuple[LayoutReach, ...] = ()  # where it was asked for
    placements: tuple[PlacementPlan, ...] = ()
    corrections: MeasuredPlan | None = None  # by what was measured, where that was asked for

    @property
    def fewest(self) -> ClusterPlan | None:
        """The plan on the fewest GPUs on which the job fits for certain."""
        return fewest(row.plan for row in self.rows)

    @property
    def trade_off(self) -> tuple[TradePoint, ...]:
        """What there is to choose from over numbers and cards, the fastest first."""
        return trade_off(self.rows, self.prices)


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
            the name ``placement`` it has placements, each of which is planned of the job as it is.
        watch: told how far the search of a cluster is.

    Raises:
        TunerError: something in the configuration or the premises cannot be used.
    """
    given = tuple(text for text in held if "=" in text)
    words = (*words, *given)
    job, main, before = _main_job(source, words, premises, clusters)
    _expect_plannable(job)
    _expect_keys(job, held)
    priced = _by_card(prices, clusters, job)
    places, varied = placements_named(varied)
    expect_colocated(job, places)
    combinations = _combinations(varied)
    wanted = PlanRequest(headroom=premises.headroom, held=frozenset(override_key(text) for text in held))
    best = _planned(job, wanted, watch, (*given, *before))
    asked = _Question(source=source, words=words, premises=premises, wanted=wanted, watch=watch, given=given)
    plans = [best, *(() if best.stopped else _other_plans(asked, clusters, job))]
    fits = any(row.settings for row in plans) or best.stopped
    planner = Planner(
        job=job,
        source=source,
        words=(*words, *before),
        before=(*given, *before),
        undivided=_undivided(job),
        premises=replace(main, gpu=_uncounted(main.gpu)),
        plan=partial(_placed_plan, replace(wanted, decides=False), watch),
    )
    return PlanAnswer(
        job=job,
        asked=GivenWords(source=source, words=words, premises=_largest(premises, clusters)),
        premises=main,
        plan=best,
        rows=capacity(plans),
        relaxations=_relaxations(best, premises.headroom),
        more=None if fits else _on_more(asked, clusters, job),
        steps=steps_of(job.loaded, premises.data_rows),
        prices=priced,
        held=tuple(held),
        variants=() if best.stopped else tuple(_variants(asked, main, before, combinations)),
        longest=_longest(job, best, premises.headroom, before) if longest else (),
        placements=() if best.stopped else tuple(placement_plans(planner, places, best)),
    )


def _longest(
    job: JobReading, best: ClusterPlan, headroom: float, before: tuple[str, ...]
) -> tuple[LayoutReach, ...]:
    return () if best.stopped else longest_responses(job.reading, best, headroom=headroom, before=before)


def _main_job(
    source: str, words: Sequence[str], premises: Premises, clusters: Clusters
) -> tuple[JobReading, Premises, tuple[str, ...]]:
    """The job on the first card, in the largest number that is asked about, and what it could not do without.

    Where the layout of the configuration needs more GPUs than that, it is undivided.
    """
    wanted = _largest(premises, clusters)
    try:
        return *job_of(source, words, wanted), ()
    except TunerError:
        own = replace(premises, gpu=_uncounted(clusters.cards[0]), gpus_per_node=None, nodes=None)
        before = _undivided(job_of(source, words, own)[0])
        return *job_of(source, (*words, *before), wanted), before


def _largest(premises: Premises, clusters: Clusters) -> Premises:
    """The premises with the first card, in the largest number that is asked about."""
    per_node, nodes = (
        None if sizes is None else sizes[-1] for sizes in (clusters.gpus_per_node, clusters.nodes)
    )
    return _premises_of(premises, clusters.cards[0], per_node, nodes)


def _premises_of(premises: Premises, card: str | None, per_node: int | None, nodes: int | None) -> Premises:
    """The premises with a card and numbers, as far as these are said."""
    said = {"gpu": card, "gpus_per_node": per_node, "nodes": nodes}
    return replace(premises, **{name: value for name, value in said.items() if value is not None})


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


def _planned(
    job: JobReading, wanted: PlanRequest, watch: Watch | None, before: Sequence[str] = ()
) -> ClusterPlan:
    """The plan on the cluster that a job was read for.

    Args:
        job: read with the overrides ``before`` its own.
        wanted: what is asked of the plan.
        watch: told how far the search is.
        before: overrides without which the job cannot be read on this cluster.
    """
    cluster = job.reading.workload.cluster
    launched = job.configuration.processes_per_node is not None
    sizes = () if launched else job.loaded.cluster_overrides(cluster.gpus_per_node, cluster.nodes)
    reading = job.reading.adding(sizes) if sizes else job.reading
    told = None if watch is None else partial(watch, cluster)
    return plan(reading, wanted, prefix=(*before, *sizes), watch=told)


def _placed_plan(
    wanted: PlanRequest, watch: Watch | None, job: JobReading, before: Sequence[str]
) -> ClusterPlan:
    """The plan of a job that is placed elsewhere: nothing else of its training may change for that."""
    return _planned(job, wanted, watch, before)


class _Question(GivenWords, frozen=True, kw_only=True):
    """What is asked of every cluster alike."""

    wanted: PlanRequest
    watch: Watch | None
    given: tuple[str, ...]  # of the words, what the user's own configuration does not have


def _other_plans(asked: _Question, clusters: Clusters, job: JobReading) -> Iterator[ClusterPlan]:
    """The plans on all other clusters that are asked about."""
    own = job.reading.workload.cluster
    seen = {_identity(own)}
    for card in clusters.cards:
        for per_node, nodes in _sizes(clusters, own):
            premises = _premises_of(asked.premises, _uncounted(card), per_node, nodes)
            cluster = replace(own, gpu=choose_card(premises).gpu, gpus_per_node=per_node, nodes=nodes)
            if _identity(cluster) not in seen:
                seen.add(_identity(cluster))
                planned = _on(asked, premises, cluster, job)
                yield planned
                if planned.stopped:
                    return


def _on(asked: _Question, premises: Premises, cluster: Cluster, job: JobReading) -> ClusterPlan:
    """The plan on another cluster than the job's; undivided where it has too few GPUs for the layout."""

    def planned(before: tuple[str, ...]) -> ClusterPlan:
        try:
            other, _premises = job_of(asked.source, (*asked.words, *before), premises)
            return _planned(other, asked.wanted, asked.watch, (*asked.given, *before))
        except (TunerError, ValueError) as error:
            return ClusterPlan(cluster=cluster, settings=(), unread=str(error))

    as_it_is = planned(())
    if not as_it_is.unread:
        return as_it_is
    smaller = planned(_undivided(job))
    return as_it_is if smaller.unread else smaller


def _undivided(job: JobReading) -> tuple[str, ...]:
    """What has every model of a job lie on as few GPUs as there are."""
    try:
        return job.reading.write(undivided(job.reading.workload)).overrides
    except ValueError:
        return ()


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
    asked: _Question, premises: Premises, before: Sequence[str], combinations: Sequence[tuple[str, ...]]
) -> Iterator[Variant]:
    """The plan of every combination, on the GPUs that there are."""
    for overrides in combinations:
        words = (*before, *overrides)
        job, _said = job_of(asked.source, (*asked.words, *words), premises)
        planned = _planned(job, asked.wanted, asked.watch, (*asked.given, *words))
        yield Variant(overrides=overrides, plan=planned, steps=steps_of(job.loaded, asked.premises.data_rows))
        if planned.stopped:
            return


def _on_more(asked: _Question, clusters: Clusters, job: JobReading) -> ClusterPlan | None:
    """The plan on the next larger number of GPUs that the job fits on: a whole node, then more and more."""
    own = job.reading.workload.cluster
    whole = own.gpu.per_node or own.gpus_per_node
    sizes = [(gpus, 1) for gpus in _fewer(whole) if gpus > own.gpus_per_node and own.nodes == 1]
    of_node = max(own.gpus_per_node, whole if own.nodes == 1 else 0)
    sizes += [(of_node, own.nodes << place) for place in range(1, _DOUBLINGS + 1)]
    for per_node, nodes in sizes:
        premises = _premises_of(asked.premises, _uncounted(clusters.cards[0]), per_node, nodes)
        cluster = replace(own, gpus_per_node=per_node, nodes=nodes)
        larger = _on(asked, premises, cluster, job)
        if larger.settings:
            return larger
        if larger.stopped:
            break
    return None


def _relaxations(best: ClusterPlan, headroom: float) -> tuple[Relaxation, ...]:
    """What would have to give, where nothing fits."""
    if best.lacking is None:
        return ()
    cards = [find_gpu(name) for name in gpu_names()]
    return relaxations(best.lacking.workload, headroom, cards)


def _identity(cluster: Cluster) -> tuple[str, int, int]:
    return cluster.gpu.name, cluster.gpus_per_node, cluster.nodes


def _uncounted(card: str | None) -> str | None:
    """A card without the number that stands before its name."""
    return None if card is None else counted(card)[1]


def _sizes(clusters: Clusters, own: Cluster) -> Iterator[tuple[int, int]]:
    """GPUs of a node, and nodes: one node with fewer and fewer GPUs, then whole nodes."""
    several = clusters.nodes is not None and len(clusters.nodes) > 1
    nodes = clusters.nodes if several and clusters.nodes is not None else tuple(_fewer(own.nodes))
    if clusters.gpus_per_node is not None:
        yield from product(clusters.gpus_per_node, nodes)
        return
    yield from ((gpus, 1) for gpus in _fewer(own.gpus_per_node)[:-1])
    yield from ((own.gpus_per_node, count) for count in nodes)


def _fewer(number: int) -> list[int]:
    """The powers of two below a number, and the number."""
    powers = [1 << place for place in range(number.bit_length()) if 1 << place < number]
    return [*powers, number]


def _by_card(prices: Mapping[str, float], clusters: Clusters, job: JobReading) -> dict[str, float]:
    """Prices by the names of the cards that there are.

    Raises:
        InputError: one is for another card.
    """
    named = {find_gpu(card).name: price for card, price in prices.items()}
    cards = {find_gpu(_uncounted(card)).name for card in clusters.cards if card is not None}
    for card in named:
        if card not in cards | {job.reading.workload.cluster.gpu.name}:
            raise InputError(_("--price {card}: no plan is for this card").format(card=card))
    return named
