"""Rungs for a phase that does not fit, cheapest first.

A rule that frees memory speaks when its phase is over the limit and the cheaper rungs together
would not bring it under. So the smallest sufficient change is named first, and what costs more,
in time or in numerics, is named only where it is needed.
"""

from collections.abc import Callable, Collection

from msgspec import Struct

from tuner.rules.case import LEAST_GAIN, Case
from tuner.rules.packing import sequences_packed
from tuner.rules.rollout_engine import AWAKE, largest_fraction
from tuner.rules.rungs import (
    activations_offloaded,
    base_in_compute_dtype,
    cache_asleep,
    checkpointed,
    engine_asleep,
    entropy_compiled,
    entropy_in_chunks,
    fewer_graphs,
    fully_sharded,
    gradients_synchronised,
    head_fused,
    least_cache,
    least_service_cache,
    one_sequence,
    optimizer_fused,
    optimizer_in_shards,
    optimizer_offloaded,
    parameters_offloaded,
    resharded,
    service_asleep,
    small_bucket,
    synced_by_tensor,
)
from tuner.rules.second_fsdp import on_host_by_second, sharded_by_second
from tuner.rules.sequence_sharing import sequence_shared
from tuner.workload import Phase, Workload

Rung = Callable[[Workload, Phase], Workload]


class Ladder(Struct, frozen=True, kw_only=True):
    """The rungs of some phases, cheapest first."""

    phases: tuple[Phase, ...]
    rungs: tuple[Rung, ...]


LADDERS = (
    Ladder(
        phases=(Phase.UPDATE_ACTOR, Phase.TRAIN, Phase.UPDATE_CRITIC),
        rungs=(
            base_in_compute_dtype,
            fewer_graphs,
            engine_asleep,
            service_asleep,
            sequences_packed,
            gradients_synchronised,
            optimizer_fused,
            entropy_compiled,
            resharded,
            fully_sharded,
            checkpointed,
            one_sequence,
            optimizer_offloaded,  # those of the other role
            parameters_offloaded,
            cache_asleep,
            head_fused,
            activations_offloaded,
            sequence_shared,
            sharded_by_second,
            on_host_by_second,
        ),
    ),
    Ladder(
        phases=(Phase.OLD_LOG_PROB, Phase.REF_LOG_PROB, Phase.VALUES),
        rungs=(
            base_in_compute_dtype,
            fewer_graphs,
            engine_asleep,
            service_asleep,
            sequences_packed,
            entropy_compiled,
            entropy_in_chunks,
            one_sequence,
            fully_sharded,
            optimizer_offloaded,
            parameters_offloaded,
            cache_asleep,
            head_fused,
            sequence_shared,
            sharded_by_second,
        ),
    ),
    Ladder(
        phases=(Phase.ROLLOUT, Phase.WAKE_UP),
        rungs=(
            base_in_compute_dtype,
            fewer_graphs,
            service_asleep,
            least_cache,
            fully_sharded,
            optimizer_offloaded,
            parameters_offloaded,
            sharded_by_second,
        ),
    ),
    Ladder(
        phases=(Phase.UPDATE_WEIGHTS,),
        rungs=(
            base_in_compute_dtype,
            fewer_graphs,
            service_asleep,
            synced_by_tensor,
            small_bucket,
            fully_sharded,
            optimizer_offloaded,
            parameters_offloaded,  # which empties what the update's blocks have left
            sharded_by_second,
        ),
    ),
    Ladder(phases=(Phase.SAVE_CHECKPOINT,), rungs=(service_asleep, optimizer_in_shards)),
    Ladder(
        phases=(Phase.REWARD,),
        rungs=(
            base_in_compute_dtype,
            fewer_graphs,
            engine_asleep,
            one_sequence,
            least_service_cache,
            fully_sharded,
            optimizer_offloaded,
            parameters_offloaded,
        ),
    ),
)


def due_phases(
    case: Case, rung: Rung, *, among: Collection[Phase] = tuple(Phase), but: Collection[Rung] = ()
) -> list[Phase]:
    """The phases in which a rung is due, worst first.

    It is due in a phase over the limit that the cheaper rungs together leave there, if it lowers
    the phase's peak, or the upper end that is beyond the card.

    Args:
        case: what is to be eased.
        rung: one rung of the ladders.
        among: phases to look at.
        but: cheaper rungs that are not to be counted on.
    """
    phases = [
        phase
        for ladder in LADDERS
        if rung in ladder.rungs
        for phase in ladder.phases
        if phase in among and _due_in(case, ladder, rung, phase, but)
    ]
    return sorted(phases, key=case.peak_bytes, reverse=True)


def due(case: Case, rung: Rung, *, among: Collection[Phase] = tuple(Phase)) -> Phase | None:
    """The worst phase in which a rung is due, None where it is not."""
    return next(iter(due_phases(case, rung, among=among)), None)


def due_proposal(
    case: Case, rung: Rung, *, among: Collection[Phase] = tuple(Phase), but: Collection[Rung] = ()
) -> tuple[Phase, Workload] | None:
    """The worst phase in which a rung is due, and the workload with it in all of them.

    None also where the rung of the other phases takes more of the worst one than its own gives back.
    """
    phases = due_phases(case, rung, among=among, but=but)
    if not phases:
        return None
    proposal = case.workload
    for phase in phases:
        proposal = rung(proposal, phase)
    if case.with_workload(proposal).peak_bytes(phases[0]) > case.peak_bytes(phases[0]):
        return None
    return phases[0], proposal


def wake_up_without_states(case: Case) -> Phase | None:
    """The phase of the awake engine for which optimizer states have to leave the card, None where none has to.

    A smaller cache is the cheaper way out, unless more sequences have to wait for it than copies take.
    """
    phase = due(case, optimizer_offloaded, among=AWAKE)
    if phase is not None:
        return phase
    phases = due_phases(case, optimizer_offloaded, among=AWAKE, but=(least_cache,))
    lowered = largest_fraction(case) if phases else None
    if lowered is None:
        return None
    offloaded = optimizer_offloaded(case.workload, phases[0])
    cheaper = case.seconds(offloaded) < case.seconds(lowered) * (1 - LEAST_GAIN)
    return phases[0] if cheaper and case.eases(offloaded, *AWAKE) else None


def _due_in(case: Case, ladder: Ladder, rung: Rung, phase: Phase, but: Collection[Rung]) -> bool:
    if case.short(phase) is None:
        return False
    if case.eases(_with_cheaper(case, ladder, rung, phase, but), phase):
        return False
    proposal = rung(case.workload, phase)
    return case.lowers(proposal, phase) or case.relieves(proposal, phase)


def _with_cheaper(case: Case, ladder: Ladder, rung: Rung, phase: Phase, but: Collection[Rung]) -> Workload:
    """The workload with all rungs that come before one; each rung adds its own to what the last one had."""
    steps: dict[tuple[Phase, tuple[Rung, ...]], list[Workload]] = vars(case).setdefault("eased", {})
    eased = steps.setdefault((phase, tuple(but)), [case.workload])
    for cheaper in ladder.rungs[len(eased) - 1 : ladder.rungs.index(rung)]:
        eased.append(eased[-1] if cheaper in but else cheaper(eased[-1], phase))
    return eased[ladder.rungs.index(rung)]
