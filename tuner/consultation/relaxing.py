"""What would have to give where nothing fits: by the setting that comes nearest, and planned anew.

That setting is chosen for its card, host and lengths: with others another one may fit where it does not, or
be faster.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tuner.consultation.consult import job_of
from tuner.consultation.planned_clusters import ClusterQuestion, PlannedJob, planned_for, planned_on
from tuner.errors import TunerError
from tuner.gpus import find_gpu, gpu_names
from tuner.hardware import Cluster, Gpu
from tuner.plan.answer import ClusterPlan, Lacking, PlannedSetting
from tuner.plan.carrying import Caps
from tuner.plan.judge import Judge
from tuner.plan.reasons import Relaxation, RelaxationKind, larger_cards, relaxations
from tuner.rules.case import CaseFigures

_CARDS = 2  # sizes of larger cards that are planned for
_LARGER_FROM = 1.5  # times the memory of the job's own card, where more of these are no answer
_WHOLE_NODES = (1, 2, 4)
_HALVES = 5  # of the longest response
_LEAST_TOKENS = 256


def relaxations_of(
    best: ClusterPlan, asked: ClusterQuestion, job: PlannedJob, *, anew: bool
) -> tuple[Relaxation, ...]:
    """The nearest relaxation of each kind with which a job fits for certain; none where it fits already.

    Args:
        best: the plan of the job.
        asked: what is asked of every cluster.
        job: as it was read for that plan.
        anew: whether to plan for other cards and lengths, which takes as long as the first plan or longer.
    """
    lacking = best.lacking
    if lacking is None:
        return ()
    cards = larger_cards(best.cluster.gpu, map(find_gpu, gpu_names()))
    near = list(relaxations(lacking.workload, asked.wanted.headroom, cards))
    kinds = {one.kind for one in near}
    if anew:
        near = [_planned_with_host(one, best.cluster, asked) for one in near]
    if anew and RelaxationKind.CARD not in kinds:
        near += _on_a_larger_card(lacking, best.cluster, asked, cards)
    if anew and RelaxationKind.RESPONSE_LENGTH not in kinds:
        near += _with_shorter_responses(lacking, asked, job)
    return tuple(sorted(near, key=lambda one: list(RelaxationKind).index(one.kind)))


def on_whole_nodes(asked: ClusterQuestion, own: Cluster) -> Iterator[ClusterPlan]:
    """The plan on the fewest whole nodes of larger cards, where no number of the job's own cards is enough.

    Of each size the card is taken that is fastest; none where it fits on none of them either.
    """
    larger = larger_cards(own.gpu, (card for card in map(find_gpu, gpu_names()) if card.per_node))
    sizes = {card.capacity_bytes: card for card in sorted(larger, key=lambda card: card.memory_bytes_per_s)}
    cards = [sizes[size] for size in sorted(sizes) if size >= _LARGER_FROM * own.gpu.capacity_bytes]
    for nodes in _WHOLE_NODES:
        for card in cards[: _CARDS + 1]:
            node = replace(own, gpu=card, gpus_per_node=card.per_node or own.gpus_per_node, nodes=nodes)
            planned = planned_for(asked, node)
            if planned.settings or planned.stopped:
                yield planned
                return


def _planned_with_host(one: Relaxation, own: Cluster, asked: ClusterQuestion) -> Relaxation:
    """More host memory at the price of what a plan makes of it; another relaxation as it is."""
    if one.kind is not RelaxationKind.HOST_MEMORY:
        return one
    larger = replace(asked, premises=replace(asked.premises, host_memory_gib=float(one.value)))
    planned = planned_for(larger, own)
    return one if planned.best is None else _relaxation(one.kind, one.value, planned.best)


def _on_a_larger_card(
    lacking: Lacking, own: Cluster, asked: ClusterQuestion, cards: Sequence[Gpu]
) -> Iterator[Relaxation]:
    """As many of the smallest larger card that a plan fits on."""
    least = max((one.missing_bytes for one in lacking.everywhere), default=0)
    enough = own.gpu.capacity_bytes + least
    sizes = {card.capacity_bytes: card for card in reversed(cards) if card.capacity_bytes > enough}
    for size in sorted(sizes)[:_CARDS]:
        planned = planned_for(asked, replace(own, gpu=sizes[size]))
        if planned.best is not None:
            yield _relaxation(RelaxationKind.CARD, sizes[size].name, planned.best)
        if planned.best is not None or planned.stopped:
            return


def _with_shorter_responses(
    lacking: Lacking, asked: ClusterQuestion, job: PlannedJob
) -> Iterator[Relaxation]:
    """Responses of half the length, or of half of that, and so on."""
    now = lacking.workload.batch.max_response_tokens
    lengths = [now >> place for place in range(1, _HALVES + 1) if now >> place >= _LEAST_TOKENS]
    if not lengths or _lacks_at(lengths[-1], lacking):
        return
    for tokens in lengths:
        try:
            lines = (*job.before, *Caps(job.read.reading).overrides(tokens))
            shorter, _said = job_of(asked.source, (*asked.words, *lines), job.premises)
        except (TunerError, ValueError):
            return
        planned = planned_on(shorter, asked.wanted, asked.watch, (*asked.given, *lines))
        if planned.best is not None:
            yield _relaxation(RelaxationKind.RESPONSE_LENGTH, str(tokens), planned.best)
        if planned.best is not None or planned.stopped:
            return


def _lacks_at(tokens: int, lacking: Lacking) -> bool:
    """Whether a phase that lacks memory everywhere does so with responses of so many tokens as well.

    Not of passes: their micro-batches become smaller with the sequences.
    """
    shorter = lacking.workload.with_batch(max_response_tokens=tokens, engine_tokens=None)
    figures, judge = CaseFigures(shorter), Judge(0.0)
    of_passes = {one.phase for one in shorter.passes()}
    phases = (figures.memory.phase(one.phase) for one in lacking.everywhere if one.phase not in of_passes)
    return any(phase is not None and judge.missing_bytes(shorter, phase) for phase in phases)


def _relaxation(kind: RelaxationKind, value: str, setting: PlannedSetting) -> Relaxation:
    return Relaxation(kind=kind, value=value, seconds=setting.time.seconds, gpu_hours=setting.gpu_hours)
