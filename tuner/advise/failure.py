"""Why a job ran out of memory: its error beside what the model says of the job, and what makes room."""

from math import ceil
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from tuner.advise.allocation import (
    Agreement,
    Explanation,
    Standing,
    explain_allocation,
    explain_without_a_job,
    standing,
)
from tuner.advise.answer import Advice
from tuner.advise.card import CardUse, card_of
from tuner.advise.needs import Measure, Need, opens, room_bytes
from tuner.advise.remedies import Remedy, Write, remedies
from tuner.dtypes import DType
from tuner.memory.failed_allocation.explanation import FailedAllocation, failed_allocation
from tuner.memory.ledger.terms import Term
from tuner.model_shape import ModelShape
from tuner.out_of_memory.kinds import ErrorKind
from tuner.out_of_memory.reading import OutOfMemory
from tuner.rules.case import Case
from tuner.rules.rollout_engine import with_fraction
from tuner.units import GIB
from tuner.workload import Phase, Workload
from tuner.workload.place import FailedWork, FailurePlace

AT_START = (ErrorKind.NO_CACHE, ErrorKind.SHORT_CACHE, ErrorKind.NOT_FREE, ErrorKind.SAMPLER)
ON_HOST = (ErrorKind.HOST, ErrorKind.KILLED)
_UNKNOWN = 0.1  # of what there is, taken to be missing where the error names no size
_OF_ENGINE = (FailedWork.TRIAL_RUN, FailedWork.GRAPHS, FailedWork.CACHE, FailedWork.ENGINE_WEIGHTS)
_OF_STATES = (FailedWork.OPTIMIZER, FailedWork.LOADING, FailedWork.GATHERING, FailedWork.GRADIENTS)
_SAME = 0.006  # of a setting, by which a message may round it


class OtherSetting(NamedTuple):
    """A setting that the error states otherwise than the configuration."""

    name: str
    in_error: float
    in_configuration: float


class Failure(Struct, frozen=True, kw_only=True):
    """An error, explained as far as what was given reaches."""

    error: OutOfMemory
    place: FailurePlace
    allocation: Annotated[
        Explanation | None,
        Meta(description="the tensors of the failed size; null where the error names none"),
    ] = None
    card: Annotated[CardUse | None, Meta(description="what was on the card, by the message")] = None
    # None for what is no phase's
    standing: Annotated[
        Standing | None, Meta(description="what the model says of the phase; null without a job")
    ] = None
    of_another_job: Annotated[
        bool, Meta(description="the job has none of the phases that the stack tells")
    ] = False
    starts: Annotated[
        bool | None,
        Meta(description="of a rollout engine that did not start: whether it does by the model"),
    ] = None
    other_settings: tuple[OtherSetting, ...] = ()
    host_bytes: Annotated[int | None, Meta(description="host memory of a node, by the model")] = None
    host_terms: tuple[Term, ...] = ()  # what it adds up from, the largest first
    host_capacity_bytes: int | None = None  # of a node, by the message or an option
    need: Need | None = None
    remedies: tuple[Remedy, ...] = ()


def failed_of(error: OutOfMemory) -> FailedAllocation | None:
    """The allocation that an error names; None where it names none."""
    message = error.allocator
    if message is None or message.requested is None:
        return None
    return failed_allocation(message.requested, message)


def explain_failure(advice: Advice, error: OutOfMemory, place: FailurePlace, write: Write) -> Failure:
    """Hold an error against a job.

    Args:
        advice: on the job.
        error: what was printed.
        place: where the job was, as the trainer reads it from the stack.
        write: writes a proposal in the trainer's keys.
    """
    place = _known_place(error, place)
    if error.kind in ON_HOST:
        return _on_host(advice, error, place, write)
    generates = advice.workload.rollout is not None
    if error.kind in AT_START and generates:
        return _at_start(advice, error, place, write)
    return _on_card(advice, error, place, write)


def _on_card(advice: Advice, error: OutOfMemory, place: FailurePlace, write: Write) -> Failure:
    """Memory of a GPU, in a phase of the step or while the engine starts."""
    failed, estimate = failed_of(error), advice.estimate
    allocation = None if failed is None else explain_allocation(advice, failed, place)
    generates = advice.workload.rollout is not None
    absent = bool(place.phases) and all(estimate.phase(phase) is None for phase in place.phases)
    of_engine = error.kind in AT_START or place.work in _OF_ENGINE
    absent = absent or (of_engine and not generates)  # the job has no engine
    if absent or (place.before_steps and place.work not in _OF_ENGINE):
        card = card_of(error.allocator, failed, None, capacity=estimate.capacity_bytes)
        return Failure(error=error, place=place, allocation=allocation, card=card, of_another_job=absent)
    match = allocation.candidates[0].match if allocation is not None and allocation.candidates else None
    phases = place.phases or (() if match is None else match.tensor.phases)
    # An engine that starts takes no more than one that generates.
    verdict = standing(advice, failed, match, (Phase.ROLLOUT,) if place.before_steps else phases)
    of_phase = None if place.before_steps else estimate.phase(verdict.phase)
    need = _need(verdict, failed, place)
    return Failure(
        error=error,
        place=place,
        allocation=allocation,
        card=card_of(error.allocator, failed, of_phase, capacity=estimate.capacity_bytes),
        standing=verdict,
        need=need,
        remedies=remedies(advice, need, write),
    )


def explain_failure_alone(
    error: OutOfMemory, place: FailurePlace, *, model: ModelShape | None, capacity: int | None
) -> Failure:
    """What follows from an error without its job.

    Args:
        error: what was printed.
        place: where the job was, as the trainer reads it from the stack.
        model: the actor's, where it is known.
        capacity: bytes of the card, where it is known.
    """
    place = _known_place(error, place)
    failed = failed_of(error)
    allocation = None
    if failed is not None and model is not None:
        allocation = explain_without_a_job(
            failed, vocab=model.vocab, dtype=DType.BFLOAT16, tokens=None, model=model, place=place
        )
    card = card_of(error.allocator, failed, None, capacity=capacity)
    return Failure(error=error, place=place, allocation=allocation, card=card)


def _known_place(error: OutOfMemory, place: FailurePlace) -> FailurePlace:
    """The place, where the stack says nothing and the error itself does."""
    if error.kind in AT_START:
        work = (
            place.work
            if place.before_steps
            else FailedWork.TRIAL_RUN
            if error.kind is ErrorKind.SAMPLER
            else FailedWork.CACHE
        )
        return FailurePlace(
            before_steps=True, phase_call=place.phase_call, work=work, work_call=place.work_call
        )
    if error.kind is ErrorKind.MAPPING and place.work is None and not place.before_steps:
        phases = place.phases or (Phase.UPDATE_WEIGHTS, Phase.WAKE_UP)
        return FailurePlace(phases=phases, phase_call=place.phase_call, work=FailedWork.CACHE)
    if error.kind is ErrorKind.SERVING and not place.phases:
        return FailurePlace(phases=(Phase.ROLLOUT,), work=FailedWork.CACHE)
    return place


def _need(verdict: Standing, failed: FailedAllocation | None, place: FailurePlace) -> Need:
    """What the phase may take: the card; where the model finds it within, less by what was missing."""
    limit, known = verdict.capacity_bytes, True
    if verdict.agreement is not Agreement.AGREES:
        missing, known = ceil(_UNKNOWN * verdict.capacity_bytes), failed is not None
        if failed is not None:
            missing = max(1, failed.low_bytes - (failed.free_bytes or 0))
        limit = max(1, verdict.peak_bytes - missing)
    return Need(
        measure=Measure.PEAK,
        limit_bytes=limit,
        phase=verdict.phase,
        tokens_decide=place.work not in _OF_STATES,
        trained=not place.before_steps,
        known=known,
    )


def _at_start(advice: Advice, error: OutOfMemory, place: FailurePlace, write: Write) -> Failure:
    case = Case.of(advice.workload, headroom=advice.headroom)
    opened = opens(case.workload)
    need = _room(case, error, opened=opened)
    return Failure(
        error=error,
        place=place,
        starts=opened,
        standing=standing(advice, None, None),
        other_settings=_other_settings(case.workload, error),
        need=need,
        remedies=remedies(advice, need, write),
    )


def _room(case: Case, error: OutOfMemory, *, opened: bool) -> Need:
    """What the engine lacked when it started, by the message, else by the model."""
    workload = case.workload
    if error.kind is ErrorKind.NO_CACHE:
        cache, least = case.rollout.kv_bytes, ceil(_UNKNOWN * case.capacity_bytes)
        # By the model there is a cache, which was not: as much is to be found, and at least something.
        limit = cache + max(cache, least) if opened else 0
        return Need(measure=Measure.CACHE, limit_bytes=limit, known=not opened or cache >= least)
    if error.kind is ErrorKind.SHORT_CACHE:
        needed, available = error.figure("needed_gib"), error.figure("available_gib")
        known = needed is not None and available is not None
        missing = ceil(_UNKNOWN * case.capacity_bytes)
        if needed is not None and available is not None:
            missing = ceil((needed - available) * GIB)
        limit = room_bytes(workload) + missing if opened else 0
        return Need(measure=Measure.ROOM, limit_bytes=limit, known=not opened or known)
    peak = case.peak_bytes(Phase.ROLLOUT)
    share = free_share(error)
    if share is None or share / 100 >= workload.generator.memory_fraction:
        limit = max(1, peak - ceil(_UNKNOWN * case.capacity_bytes))
        return Need(measure=Measure.PEAK, limit_bytes=limit, phase=Phase.ROLLOUT, known=False)
    limit = case.with_workload(with_fraction(workload, share)).peak_bytes(Phase.ROLLOUT)
    return Need(measure=Measure.PEAK, limit_bytes=limit, phase=Phase.ROLLOUT)


def free_share(error: OutOfMemory) -> int | None:
    """The largest memory fraction, in hundredths, that was free; None where the message does not say."""
    free, total = error.figure("free_gib"), error.figure("total_gib")
    return None if free is None or not total else int(100 * free / total)


def _other_settings(workload: Workload, error: OutOfMemory) -> tuple[OtherSetting, ...]:
    """Settings that the error states otherwise than the job: their name, there and here."""
    rollout = workload.generator
    here = {
        "fraction": rollout.memory_fraction,
        "sequence_tokens": float(rollout.max_model_tokens or workload.model.max_positions),
        "sequences": float(min(rollout.max_sequences, rollout.step_tokens)),
    }
    there = {name: error.figure(name) for name in here}
    return tuple(
        OtherSetting(name, value, here[name])
        for name, value in there.items()
        if value is not None and abs(value - here[name]) > _SAME * here[name]
    )


def _on_host(advice: Advice, error: OutOfMemory, place: FailurePlace, write: Write) -> Failure:
    """Memory of a node: what the job keeps there, against what the node has."""
    total, held = error.figure("total_gib"), advice.estimate.host_bytes
    capacity = advice.estimate.host_capacity_bytes if total is None else ceil(total * GIB)
    if capacity is not None and held > capacity:
        need = Need(measure=Measure.HOST, limit_bytes=capacity)
    else:
        need = Need(measure=Measure.HOST, limit_bytes=max(1, held - ceil(_UNKNOWN * held)), known=False)
    return Failure(
        error=error,
        place=place,
        host_bytes=held,
        host_terms=tuple(sorted(advice.estimate.host_terms, key=lambda term: -term.bytes)),
        host_capacity_bytes=capacity,
        need=need,
        remedies=remedies(advice, need, write) if held else (),
    )
